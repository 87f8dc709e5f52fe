// SPDX-License-Identifier: Apache-2.0
#include "agent.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <zeroth/comm/exit_code.hpp>
#include <zeroth/tool/comm/restart_budget.hpp>
#include <zeroth/tool/core/standard_streams.hpp>
#include <zeroth/tool/core/terminal.hpp>

#include "checkpoint_mark.hpp"
#include "endings.hpp"
#include "processes.hpp"
#include "rank_logs.hpp"
#include "rank_starts.hpp"

namespace zeroth::tools {
namespace {

using Clock = std::chrono::steady_clock;

void say(std::string const& text) { write_error("zeroth run: " + text + "\n"); }

constexpr int first_signal = 129, last_signal = 128 + 64;  // the exit status of a shell for a signal

/// Whether another attempt may help. Includes the signals that shells and mpirun report as a status.
bool may_be_tried_again(int exit_code) noexcept {
  return exit_code == ExitCode::failed || (exit_code >= first_signal && exit_code <= last_signal);
}

class Agent {
 public:
  explicit Agent(AgentOptions const& options)
      : options_{options},
        run_folder_{options.log_dir.empty() ? options.log_dir : make_run_folder(options.log_dir)},
        ranks_{options.ranks},
        budget_{options.max_restarts} {}

  int run() {
    for (int attempt = 1;; ++attempt) {
      auto const mark = CheckpointMark::of(options_.checkpoint);
      auto const end = run_once(attempt);
      bool const is_number_wrong = std::exchange(is_new_number_, false) && end.exit_code == ExitCode::wrong;
      if (is_number_wrong && ranks_ > options_.min_ranks && !asked_to_end_) {
        take_a_rank_less();
        tell_of(end);
        say(fmt::format("attempt {} with {}, after {}", attempt + 1, count_ranks(), end.words));
        continue;
      }
      if (asked_to_end_ || !may_be_tried_again(end.exit_code)) {
        tell_of(end);
        return end.exit_code;
      }
      bool const progress = CheckpointMark::of(options_.checkpoint).is_newer_than(mark);
      bool const has_failed_again = budget_.used() > 0 && !progress;
      auto const pause = budget_.next(progress);
      if (!pause) {
        say(fmt::format("ends after {}, with {} of {} restarts without progress used", end.words, budget_.used(),
                        budget_.most()));
        tell_of(end);  // last: the line that the reader of a screen sees first
        return end.exit_code;
      }
      tell_of(end);
      if (has_failed_again && ranks_ > options_.min_ranks) {
        take_a_rank_less();
      }
      say(fmt::format("attempt {} with {} in {} s, restart {} of {} without progress, after {}", attempt + 1,
                      count_ranks(), pause->count(), budget_.used(), budget_.most(), end.words));
      if (!wait(*pause)) {
        return end.exit_code;
      }
    }
  }

 private:
  void take_a_rank_less() {
    --ranks_;
    is_new_number_ = true;
  }

  [[nodiscard]] std::string count_ranks() const { return ranks_ == 1 ? "1 rank" : fmt::format("{} ranks", ranks_); }

  /// Prints nothing about processes that ended on request.
  void tell_of(Outcome const& end) const {
    if (!asked_to_end_ && !end.account.empty()) {
      write_error(end.account);
    }
  }

  /// The next signal, or 0 at `deadline`. Meanwhile prints new lines of the logs.
  int next_signal(std::optional<Clock::time_point> deadline, RankLogs& logs) const {
    constexpr std::chrono::milliseconds pause{100};
    while (logs.are_followed()) {
      auto const soon = Clock::now() + pause;
      int const signal = signals_.next(deadline ? std::min(*deadline, soon) : soon);
      logs.show();
      if (signal != 0 || (deadline && Clock::now() >= *deadline)) {
        return signal;
      }
    }
    return signals_.next(deadline);
  }

  Outcome run_once(int attempt) {
    auto starts = rank_starts(options_, ranks_, attempt);
    RankLogs logs;
    if (!run_folder_.empty()) {
      logs = RankLogs{run_folder_, attempt, starts.size(), options_.tee};
      for (std::size_t place = 0; place < starts.size(); ++place) {
        starts[place].output = logs.file(place);
      }
    }
    Processes processes{starts, signals_};
    std::optional<Clock::time_point> deadline;  // set once a rank has failed
    while (processes.are_running()) {
      int const signal = next_signal(deadline, logs);
      if (signal == SIGCHLD) {
        processes.reap();
        bool const failed = std::ranges::any_of(processes.ended(), [](auto const& e) { return !e.second.is_well(); });
        if (failed && !deadline && processes.are_running()) {
          deadline = Clock::now() + options_.grace;
          if (!asked_to_end_) {
            processes.send(SIGTERM);
          }
        }
      } else if (signal == 0) {
        deadline = Clock::time_point::max();
        processes.kill();
      } else {
        obey(signal, processes);
      }
    }
    logs.show_all();
    auto outcome = outcome_of(processes, starts.size() > 1, logs);
    if (outcome.exit_code >= first_signal && !logs.are_there() && terminal_at(STDERR_FILENO).is_there) {
      write_error("\n");  // end the progress line that the killed program left open
    }
    return outcome;
  }

  void obey(int signal, Processes& processes) {
    bool const is_second_sigterm = signal == SIGTERM && std::exchange(terminated_, true);
    asked_to_end_ = true;
    if (is_second_sigterm) {
      say("the second SIGTERM kills the program");
      processes.kill();
    } else {
      processes.send(signal);
    }
  }

  /// Returns false if a signal asks for the end before the pause is over.
  bool wait(std::chrono::seconds pause) {
    auto const until = Clock::now() + pause;
    int signal = SIGCHLD;
    while (signal == SIGCHLD) {  // SIGCHLD is left over from ended processes
      signal = signals_.next(until);
    }
    return signal == 0;
  }

  AgentOptions const& options_;
  std::filesystem::path run_folder_;  // of logs; empty: no logs
  AwaitedSignals signals_;
  int ranks_;
  /// No attempt with this number of ranks has ended yet: status 2 may mean that they do not divide a batch.
  bool is_new_number_ = false;
  RestartBudget budget_;
  bool asked_to_end_ = false, terminated_ = false;
};

}  // namespace

int run_agent(AgentOptions const& options) {
  try {
    return Agent{options}.run();
  } catch (std::exception const& error) {
    say(error.what());
    return exit_code_of(error);
  }
}

}  // namespace zeroth::tools
