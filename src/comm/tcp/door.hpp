// SPDX-License-Identifier: Apache-2.0
/// Who may come in: the listener of one rank, and those who have not said yet who they are.
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

/// Takes a socket in for one greeting of at most most_greeting_bytes, which must be whole in time, and lets
/// go who is not of this job, of this version, or another rank's guest. Of strangers that say nothing the oldest go
/// when there are too many. One thread at a time.
class Door {
 public:
  struct Options {
    Descriptor listener;
    std::string token;
    int rank = 0, world = 1;
    std::chrono::milliseconds patience{5000};  ///< For a whole greeting.
  };
  struct Guest {
    int rank = 0;
    Descriptor socket;
  };
  explicit Door(Options options) : options_{std::move(options)} {}

  [[nodiscard]] Options const& options() const noexcept { return options_; }

  void watch(std::vector<pollfd>& entries) const;
  /// `entries` as watch() added them. Returns who was let in.
  [[nodiscard]] std::vector<Guest> serve(std::span<pollfd const> entries, Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;

 private:
  struct Stranger {
    Connection connection;
    std::string address;
    Clock::time_point since;
    bool ended = false;
  };
  void accept_all(Clock::time_point now, std::vector<Guest>& guests);
  /// Takes in what it has said, and adds it to `guests` if it is to be let in.
  void hear(Stranger& stranger, std::vector<Guest>& guests);
  /// The rank that it is, or -1.
  [[nodiscard]] int listen_to(Stranger& stranger);
  [[nodiscard]] std::string objection_to(Greeting const& greeting) const;
  void turn_away(Stranger& stranger, std::string const& why);

  Options options_;
  std::list<Stranger> strangers_;  // the oldest first
  Clock::time_point accept_again_{};
  int logged_ = 0;
};

}  // namespace zeroth::comm
