// SPDX-License-Identifier: Apache-2.0
/// Signals while a job runs.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <csignal>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// Brings SIGINT, SIGTERM and SIGUSR1 to a thread of its own while it lives, and says on stderr what comes of them. The
/// handler only passes on the number, whatever thread it runs on, so the actions may do anything; no thread's signal
/// mask is touched, so that programs which ranks start are born as usual. A signal that was ignored before stays so.
/// Processes that are forked while it lives end by theirs.
class SignalWatch {
 public:
  /// Launchers, and some terminals with them, pass Ctrl-C on as SIGTERM: either signal asks for a stop when it first
  /// comes. The second SIGINT ends the process with status 130; the second SIGTERM, or `grace` after the first, lets
  /// SIGTERM do what it did before. A program that handles SIGTERM by itself is left to do so, after `record`. SIGUSR1
  /// asks for a stop and begins the grace; it may come again, since launchers pass on what their groups got as well.
  /// Who handles it is left to.
  struct Actions {
    std::string who;                                 ///< What ends: "the process", "rank 2".
    std::function<void(int)> ask;                    ///< The first of a signal: all ranks are to stop.
    std::function<void(std::string const&)> record;  ///< SIGTERM is about to end the process: why.
    std::chrono::milliseconds grace;  ///< For the end of this watch to come, after SIGTERM or SIGUSR1 first asked.
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
  std::optional<Clock::time_point> deadline_;  // once one of them has come
  struct sigaction before_interrupt_ {};
  struct sigaction before_terminate_ {};
  struct sigaction before_user_ {};
  std::thread thread_;
};

}  // namespace zeroth::comm
