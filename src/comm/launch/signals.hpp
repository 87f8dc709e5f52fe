// SPDX-License-Identifier: Apache-2.0
/// Handles signals while a job runs.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <csignal>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// While it lives, delivers SIGINT, SIGTERM and SIGUSR1 to its own thread, and reports their effect on stderr. The
/// handler only passes on the number, on whatever thread it runs, so the actions may do anything. No thread's signal
/// mask changes, so that programs started by ranks inherit the usual one. A signal that was ignored before stays
/// ignored. Signals end forked children as usual.
class SignalWatch {
 public:
  /// Launchers, and some terminals through them, pass Ctrl-C on as SIGTERM, so both signals request a stop when they
  /// first arrive. The second SIGINT ends the process with status 130. The second SIGTERM, or `grace` after the first,
  /// gives SIGTERM its previous effect. A program with its own SIGTERM handler keeps that, after `record`.
  /// SIGUSR1 requests a stop and starts the grace period; it may come again, since launchers also pass on signals that
  /// their group received. A program with its own SIGUSR1 handler keeps that.
  struct Actions {
    std::string who;                                 ///< The name, in messages, of what ends: "the process", "rank 2".
    std::function<void(int)> ask;                    ///< Called for the first signal of a kind: all ranks are to stop.
    std::function<void(std::string const&)> record;  ///< Called with the reason before SIGTERM ends the process.
    std::chrono::milliseconds grace;  ///< Maximum lifetime of this watch after the first stop by SIGTERM or SIGUSR1.
  };
  /// Throws ContractError if another one lives.
  explicit SignalWatch(Actions actions);
  ~SignalWatch();
  SignalWatch(SignalWatch const&) = delete;
  SignalWatch& operator=(SignalWatch const&) = delete;

 private:
  void watch();
  void interrupt();
  void terminate();
  void save_and_end();
  void stop_in_time(int signal);
  void do_as_before(std::string const& why);
  void restore() noexcept;

  Actions actions_;
  bool interrupted_ = false, terminated_ = false;
  std::string asked_by_;                       // SIGTERM or SIGUSR1, whichever came first
  std::optional<Clock::time_point> deadline_;  // set by the first of them
  struct sigaction before_interrupt_ {};
  struct sigaction before_terminate_ {};
  struct sigaction before_user_ {};
  std::thread thread_;
};

}  // namespace zeroth::comm
