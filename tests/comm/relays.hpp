// SPDX-License-Identifier: Apache-2.0
/// A network among ranks of one process that loses what goes in one direction, and leaves connections open.
#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/store/socket.hpp"
#include "comm/store_ranks.hpp"

namespace zeroth::comm {

/// Takes connections and carries what they say to a port of this machine and back.
class Relay {
 public:
  explicit Relay(int target) : target_{target} {
    int error = 0;
    listener_ = listen_at("127.0.0.1", 0, error);
    port_ = port_of(listener_);
    thread_ = std::thread{[this] { serve(); }};
  }
  ~Relay() {
    ended_ = true;
    thread_.join();
  }
  Relay(Relay const&) = delete;
  Relay& operator=(Relay const&) = delete;

  [[nodiscard]] int port() const noexcept { return port_; }
  std::atomic<bool> loses_forth{false};  ///< What who dialled says.
  std::atomic<bool> loses_back{false};   ///< What it is answered.

 private:
  struct Side {
    Descriptor socket;
    bool is_over = false;  // nothing more comes from it
  };
  struct Link {
    Side dialled, target;
  };

  void serve() {
    while (!ended_) {
      std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
      for (auto const& link : links_) {
        entries.push_back({link.dialled.is_over ? -1 : link.dialled.socket.get(), POLLIN, 0});
        entries.push_back({link.target.is_over ? -1 : link.target.socket.get(), POLLIN, 0});
      }
      (void)::poll(entries.data(), entries.size(), 10);
      for (auto& link : links_) {
        carry(link.dialled, link.target, loses_forth);
        carry(link.target, link.dialled, loses_back);
      }
      links_.remove_if([](Link const& link) { return !link.dialled.socket || !link.target.socket; });
      int error = 0;
      while (auto arrival = accept_from(listener_, error)) {
        links_.push_back(
            {{std::move(arrival->socket)}, {connect_to("127.0.0.1", target_, Clock::now() + patience).socket}});
      }
    }
  }

  void carry(Side& from, Side& to, bool loses) {
    if (from.is_over || !from.socket) {
      return;
    }
    std::array<char, 1 << 16> bytes{};
    auto const come = ::recv(from.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (come > 0) {
      for (ssize_t sent = 0; sent < come && !loses && !ended_;) {
        auto const more = ::send(to.socket.get(), bytes.data() + sent, static_cast<std::size_t>(come - sent),
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (more < 0 && errno != EAGAIN) {
          return;  // that side has ended, and says so itself
        }
        sent += std::max<ssize_t>(more, 0);
        if (more < 0) {
          (void)await_socket(to.socket, POLLOUT, Clock::now() + std::chrono::milliseconds{10});
        }
      }
    } else if (come == 0 || errno != EAGAIN) {
      from.is_over = true;
      if (!loses) {
        to.socket = {};
      }
    }
  }

  int target_, port_ = 0;
  Descriptor listener_;
  std::list<Link> links_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// Relays on every way of the ranks of a job, so that each direction between two of them can be cut by itself.
class Relays {
 public:
  /// The port at which rank `from` reaches that of rank `to`.
  [[nodiscard]] int port(int from, int to, int target) {
    std::scoped_lock const lock{mutex_};
    return ways_[{from, to}].emplace_back(std::make_unique<Relay>(target))->port();
  }
  /// What rank `from` sends to rank `to` is lost from now on.
  void cut(int from, int to) {
    std::scoped_lock const lock{mutex_};
    for (auto const& relay : ways_[{from, to}]) {
      relay->loses_forth = true;
    }
    for (auto const& relay : ways_[{to, from}]) {
      relay->loses_back = true;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::vector<std::unique_ptr<Relay>>> ways_;
};

}  // namespace zeroth::comm
