// SPDX-License-Identifier: Apache-2.0
/// The connections of one rank to all others, and the only thread that moves bytes over them.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/tcp/acceptor.hpp"
#include "comm/tcp/incoming.hpp"
#include "comm/tcp/outgoing.hpp"

namespace zeroth::comm {

/// Data is sent only on request, so arriving data always has a receive buffer. A rank sends on the connection that it
/// opened and receives on the peer's. Connections open with the first message. Blocks are sent in pieces, those of
/// several channels in turns.
///
/// Threads: any may call any function; none waits. halt() ends all access to the memory given to show() and want().
class TcpLinks {
 public:
  /// Called on the thread, without a lock.
  struct Handlers {
    /// Handles WireKind::left, question and answer.
    std::function<void(int from, WireHead const& head, std::string const& words)> receive;
    /// A connection has ended for good.
    std::function<void(int rank, std::string const& why)> broken;
  };
  /// A connection breaks if the other machine is silent for longer than `silence`: the store must report that first.
  TcpLinks(Acceptor::Options acceptor, std::vector<Endpoint> const& ranks, std::chrono::milliseconds silence,
           Handlers handlers);
  ~TcpLinks();
  TcpLinks(TcpLinks const&) = delete;
  TcpLinks& operator=(TcpLinks const&) = delete;

  /// Shows `bytes` at `data` to rank `to`, which requests them with the same `outline`. After the rank has released
  /// them, notifies `notice`.
  void show(int to, Channel const& channel, void const* data, std::int64_t bytes, std::uint32_t outline,
            Notice const& notice);
  /// Requests a part of the next data that rank `from` shows, or will show, under `channel`; `last` releases it.
  /// Notifies `notice` when all of the part has arrived.
  void want(int from, Channel const& channel, std::int64_t offset, std::int64_t bytes, void* to, bool last,
            std::uint32_t outline, Notice const& notice);
  void send(int to, WireHead const& head, std::string words = {});
  void forget(std::uint64_t communicator);  ///< Drops the channels of a communicator. They must be idle.
  void expect_end(bool expected);           ///< Whether other ranks may close their connections now.
  void halt() noexcept;

 private:
  struct Shown {
    std::byte const* data = nullptr;
    std::int64_t bytes = 0;
    std::uint32_t outline = 0;
    Notice notice{};
  };
  struct Want {
    std::int64_t offset = 0, left = 0;
    bool last = false;
    std::uint32_t outline = 0;
  };
  struct Awaited {
    std::byte* to = nullptr;
    std::int64_t left = 0;
    Notice notice{};
  };
  struct Queue {
    Fifo<Shown> shown;      // by this rank
    Fifo<Want> wants;       // requests by the other rank
    Fifo<Awaited> awaited;  // by this rank
    bool in_turn = false;
  };
  struct Peer {
    explicit Peer(Endpoint const& at, Handshake const& handshake, std::chrono::milliseconds silence)
        : out{at, handshake, silence} {}
    Outgoing out;
    Incoming in;
    std::map<Channel, Queue> queues;
    Fifo<Channel> turns;  // channels that can send
    std::string broken;   // the reason, since `broken_at`
    Clock::time_point broken_at{};
    bool is_told = false;
  };
  struct Received {
    int from = 0;
    WireHead head;
    std::string words;
  };

  void loop() noexcept;
  void wait_for_sockets();
  void serve_sockets();
  void advance_out(Peer& peer);
  void advance_in(int rank);
  void serve(Peer& peer, Channel const& channel, Queue& queue);
  [[nodiscard]] std::optional<Piece> next_piece(Peer& peer);
  void break_off(Peer& peer, std::string const& why, bool at_once);
  void tell();
  void wake() const noexcept;
  [[nodiscard]] Peer& peer(int rank) noexcept { return *peers_[static_cast<std::size_t>(rank)]; }

  Handlers handlers_;
  Descriptor wake_;

  std::mutex mutex_;
  Acceptor acceptor_;
  std::vector<std::unique_ptr<Peer>> peers_;  // [world]
  bool halted_ = false, ending_ = false, end_expected_ = false;
  std::vector<Received> received_;

  // used by the thread
  std::vector<pollfd> entries_;
  Clock::time_point deadline_{};
  std::thread thread_;
};

}  // namespace zeroth::comm
