// SPDX-License-Identifier: Apache-2.0
/// Processes of one attempt to run a program, and the signals that concern them.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zeroth/comm/exit_code.hpp>

#include "group_guard.hpp"

namespace zeroth::tools {

/// SIGTERM, SIGINT, SIGUSR1 and SIGCHLD come to next() while this lives, and to nothing else. Those that were ignored
/// before stay so. For programs of one thread.
class AwaitedSignals {
 public:
  AwaitedSignals();
  ~AwaitedSignals();
  AwaitedSignals(AwaitedSignals const&) = delete;
  AwaitedSignals& operator=(AwaitedSignals const&) = delete;
  /// Waits for one; 0 at `deadline`.
  [[nodiscard]] int next(std::optional<std::chrono::steady_clock::time_point> deadline) const;
  /// In a process that was forked: the mask of before.
  void give_back() const noexcept;

 private:
  sigset_t awaited_, before_;
};

/// A program, and what is added to its environment.
struct Start {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  bool passes_signals_on = false;  ///< To what it starts, as mpirun does; otherwise they go to its whole group.
  std::filesystem::path output{};  ///< A file that its output and errors are appended to; empty: this process's own.
};

/// How a process ended.
struct Ended {
  int status = 0;
  int signal = 0;  ///< That ended it; 0 if it exited with `status`.
  /// Nothing failed: it is done, or has stopped because it was asked to.
  [[nodiscard]] bool is_well() const noexcept {
    return signal == 0 && (status == ExitCode::done || status == ExitCode::stopped);
  }
  [[nodiscard]] int exit_code() const noexcept { return signal == 0 ? status : 128 + signal; }  ///< As shells say it.
};

/// Each in a process group of its own, so that what a terminal sends comes once, from here; with nothing to read. The
/// groups are killed when this process ends, however it does.
class Processes {
 public:
  /// Starts them all. Throws ConfigError for a program that cannot be run, SystemError for a process or a file that
  /// cannot be made; then none is left.
  Processes(std::vector<Start> const& starts, AwaitedSignals const& signals);
  /// Kills what still runs.
  ~Processes();
  Processes(Processes const&) = delete;
  Processes& operator=(Processes const&) = delete;

  void send(int signal) noexcept;  ///< To each group, or to the process alone that passes it on.
  void kill() const noexcept;      ///< Each, and what it has started.
  /// Takes note of all that have ended, and kills what they have left behind; not where a process died of what send()
  /// passed on: what it has started got that too, and may take its time. Does not wait.
  void reap();
  /// A process, or one that it has started.
  [[nodiscard]] bool are_running() const noexcept { return !groups_.empty(); }
  /// By place in `starts`, in the order in which they were seen to end.
  [[nodiscard]] std::vector<std::pair<std::size_t, Ended>> const& ended() const noexcept { return ended_; }

 private:
  struct Group {
    pid_t number = 0;
    std::size_t place = 0;
    bool passes_signals_on = false;
    bool leader_runs = true;
  };
  void end() noexcept;
  void forget_empty_groups();

  GroupGuard guard_;
  std::vector<Group> groups_;  // that have processes
  sigset_t sent_;
  std::vector<std::pair<std::size_t, Ended>> ended_;
};

}  // namespace zeroth::tools
