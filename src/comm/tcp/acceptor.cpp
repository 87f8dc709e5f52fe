// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/acceptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "comm/rank_error.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr int most_logged = 20;

}  // namespace

void Acceptor::watch(std::vector<pollfd>& entries) const {
  entries.push_back({Clock::now() >= accept_again_ ? options_.listener.get() : -1, POLLIN, 0});
  for (auto const& each : pending_) {
    entries.push_back({each.connection.socket().get(), each.connection.events(), 0});
  }
}

std::vector<Acceptor::Accepted> Acceptor::serve(std::span<pollfd const> entries, Clock::time_point now) {
  std::vector<Accepted> accepted;
  auto entry = entries.begin() + 1;
  for (auto& connection : pending_) {
    if ((entry++)->revents != 0) {
      receive(connection, accepted);
    }
    if (!connection.ended && now - connection.since >= options_.patience) {
      if (connection.connection.has_received()) {
        turn_away(connection, "it did not finish its handshake");
      }
      connection.ended = true;
    }
  }
  pending_.remove_if([](PendingConnection const& each) { return each.ended; });
  if (entries.front().revents != 0) {
    accept_all(now, accepted);
  }
  return accepted;
}

Clock::time_point Acceptor::next_deadline() const noexcept {
  auto const accept = accept_again_ > Clock::now() ? accept_again_ : Clock::time_point::max();
  return pending_.empty() ? accept : std::min(accept, pending_.front().since + options_.patience);
}

void Acceptor::accept_all(Clock::time_point now, std::vector<Accepted>& accepted) {
  int error = 0;
  while (auto arrival = accept_from(options_.listener, error)) {
    pending_.push_back({Connection{std::move(arrival->socket), most_handshake_bytes}, arrival->address, now});
    if (pending_.size() > most_pending_connections + static_cast<std::size_t>(options_.world)) {
      receive(pending_.front(), accepted);  // it may be a rank that has introduced itself since
      pending_.pop_front();
    }
  }
  if (error != 0) {  // for example, no more file descriptors: connections wait in the system's queue
    accept_again_ = now + rest_after_refused_accept;
  }
}

void Acceptor::receive(PendingConnection& connection, std::vector<Accepted>& accepted) {
  if (int const rank = read_handshake(connection); rank >= 0) {
    accepted.push_back({rank, std::move(connection.connection).release()});
    connection.ended = true;
  }
}

int Acceptor::read_handshake(PendingConnection& connection) {
  connection.connection.flush();
  bool const open = connection.connection.receive();
  try {
    if (auto const frame = connection.connection.next()) {
      if (frame->kind != Kind::hello) {
        throw BadFrame{"something before its handshake"};
      }
      auto const handshake = decode_handshake(frame->body);
      if (auto const objection = objection_to(handshake); !objection.empty()) {
        connection.connection.send(Kind::refusal, 0, Body{}.text(objection).take());
        turn_away(connection, objection);
        return -1;
      }
      connection.connection.send(Kind::welcome, 0, Body{}.text(options_.token).take());
      return handshake.from;
    }
    if (!open) {
      if (connection.connection.has_received()) {
        turn_away(connection, "it ended in the middle of its handshake");
      }
      connection.ended = true;
    }
  } catch (BadFrame const& bad) {
    turn_away(connection, fmt::format("it sent {}", bad.what()));
  }
  return -1;
}

std::string Acceptor::objection_to(Handshake const& handshake) const {
  if (handshake.version != tcp_version) {
    return fmt::format("it speaks version {} of the transport's protocol, this program version {}", handshake.version,
                       tcp_version);
  }
  if (handshake.token != options_.token) {
    return "its job token is not this job's";
  }
  if (handshake.world != options_.world || handshake.from >= handshake.world || handshake.to != options_.rank) {
    return fmt::format("it is rank {} of {} and looks for rank {}; this is rank {} of {}", handshake.from,
                       handshake.world, handshake.to, options_.rank, options_.world);
  }
  return {};
}

void Acceptor::turn_away(PendingConnection& connection, std::string const& why) {
  connection.ended = true;
  if (logged_ < most_logged) {
    logger().warn("{}refused {}: {}", rank_prefix(), connection.address, why);
  }
  if (++logged_ == most_logged) {
    logger().warn("{}further refused connections are not logged", rank_prefix());
  }
}

}  // namespace zeroth::comm
