// SPDX-License-Identifier: Apache-2.0
/// The processes of one attempt to run a program, and their signals.
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

/// While this lives, SIGTERM, SIGINT, SIGUSR1 and SIGCHLD are delivered to next() only. Signals that were ignored
/// before stay ignored. For programs with one thread.
class AwaitedSignals {
 public:
  AwaitedSignals();
  ~AwaitedSignals();
  AwaitedSignals(AwaitedSignals const&) = delete;
  AwaitedSignals& operator=(AwaitedSignals const&) = delete;
  /// Waits for a signal; returns 0 at `deadline`.
  [[nodiscard]] int next(std::optional<std::chrono::steady_clock::time_point> deadline) const;
  /// Restores the previous mask, in a forked process.
  void give_back() const noexcept;

 private:
  sigset_t awaited_, before_;
};

/// A program, and additions to its environment.
struct Start {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  bool passes_signals_on = false;  ///< It forwards signals to its children, as mpirun does; otherwise signals are sent
                                   ///< to its whole group.
  std::filesystem::path output{};  ///< A file to which its output and errors are appended; empty: it inherits this
                                   ///< process's.
};

/// How a process ended.
struct Ended {
  int status = 0;
  int signal = 0;  ///< The signal that ended it; 0 if it exited with `status`.
  /// Whether it is done, or has stopped on request.
  [[nodiscard]] bool is_well() const noexcept {
    return signal == 0 && (status == ExitCode::done || status == ExitCode::stopped);
  }
  [[nodiscard]] int exit_code() const noexcept { return signal == 0 ? status : 128 + signal; }  ///< As in a shell.
};

/// Runs each process in its own group, so that signals of a terminal reach it once, through this process; its standard
/// input is empty. The groups are killed when this process ends, whatever the cause.
class Processes {
 public:
  /// Starts all of them. Throws ConfigError for a program that cannot be run, SystemError for a process or a file that
  /// cannot be created; then none is left running.
  Processes(std::vector<Start> const& starts, AwaitedSignals const& signals);
  /// Kills all that still run.
  ~Processes();
  Processes(Processes const&) = delete;
  Processes& operator=(Processes const&) = delete;

  void send(int signal) noexcept;  ///< Sends to each group, or only to a process if it forwards signals.
  void kill() const noexcept;      ///< Kills each process with its descendants.
  /// Records all processes that have ended, and kills the rest of their groups. Exception: if the process died of a
  /// signal sent by send(), its descendants got the signal too and may take their time. Does not wait.
  void reap();
  /// Whether a process or one of its descendants runs.
  [[nodiscard]] bool are_running() const noexcept { return !groups_.empty(); }
  /// By place in `starts`, in the order in which their ends were noticed.
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
  std::vector<Group> groups_;  // groups that have processes
  sigset_t sent_;
  std::vector<std::pair<std::size_t, Ended>> ended_;
};

}  // namespace zeroth::tools
