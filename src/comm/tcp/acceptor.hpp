// SPDX-License-Identifier: Apache-2.0
/// The listener of one rank, and the accepted connections whose rank is not known yet.
#pragma once
#include <poll.h>

#include <chrono>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "comm/store/connection.hpp"
#include "comm/store/socket.hpp"
#include "comm/tcp/wire.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// Accepts connections and reads one handshake from each, of at most most_handshake_bytes and complete in time. It
/// closes a connection of another job, of another version, or to another rank. If too many connections stay silent, it
/// closes the oldest. Used by one thread at a time.
class Acceptor {
 public:
  struct Options {
    Descriptor listener;
    std::string token;
    int rank = 0, world = 1;
    std::chrono::milliseconds patience{5000};  ///< For a whole handshake.
  };
  struct Accepted {
    int rank = 0;
    Descriptor socket;
  };
  explicit Acceptor(Options options) : options_{std::move(options)} {}

  [[nodiscard]] Options const& options() const noexcept { return options_; }

  void watch(std::vector<pollfd>& entries) const;
  /// Handles `entries` that watch() added. Returns the ranks that have completed their handshakes.
  [[nodiscard]] std::vector<Accepted> serve(std::span<pollfd const> entries, Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;

 private:
  struct PendingConnection {
    Connection connection;
    std::string address;
    Clock::time_point since;
    bool ended = false;
  };
  void accept_all(Clock::time_point now, std::vector<Accepted>& accepted);
  /// Reads available bytes, and adds the rank to `accepted` once its handshake is complete and valid.
  void receive(PendingConnection& connection, std::vector<Accepted>& accepted);
  /// The rank at the other end, or -1.
  [[nodiscard]] int read_handshake(PendingConnection& connection);
  [[nodiscard]] std::string objection_to(Handshake const& handshake) const;
  void turn_away(PendingConnection& connection, std::string const& why);

  Options options_;
  std::list<PendingConnection> pending_;  // the oldest first
  Clock::time_point accept_again_{};
  int logged_ = 0;
};

}  // namespace zeroth::comm
