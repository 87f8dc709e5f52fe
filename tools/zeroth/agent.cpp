// SPDX-License-Identifier: Apache-2.0
#include "agent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include <zeroth/comm/exit_code.hpp>
#include <zeroth/comm/restart_budget.hpp>
#include <zeroth/core/standard_streams.hpp>

#include "checkpoint_mark.hpp"
#include "processes.hpp"
#include "rank_starts.hpp"

namespace zeroth::tools {
namespace {

using Clock = std::chrono::steady_clock;

void say(std::string const& text) { write_error("zeroth run: " + text + "\n"); }

/// Of all processes of an attempt, the one that decides, and it in words.
struct Verdict {
  int exit_code = ExitCode::done;
  std::string words;
};

/// Another try may help: of our programs' statuses, and of the signals that shells and mpirun show as one.
bool may_be_tried_again(int exit_code) noexcept {
  constexpr int first_signal = 129, last_signal = 128 + 64;
  return exit_code == ExitCode::failed || (exit_code >= first_signal && exit_code <= last_signal);
}

Verdict verdict_of(Processes const& processes, bool are_ranks) {
  auto const& ended = processes.ended();
  // A rank says `wrong` of itself alone: what the others make of its end may have come first.
  auto decides = std::ranges::find_if(
      ended, [](auto const& each) { return each.second.signal == 0 && each.second.status == ExitCode::wrong; });
  if (decides == ended.end()) {
    decides = std::ranges::find_if(ended, [](auto const& each) { return !each.second.is_well(); });
  }
  if (decides == ended.end()) {
    decides = std::ranges::max_element(ended, {}, [](auto const& each) { return each.second.status; });
  }
  auto const& [place, how] = *decides;
  auto const words = how.signal == 0 ? fmt::format("exit status {}", how.status)
                                     : fmt::format("signal {} ({})", how.signal, ::strsignal(how.signal));
  return {how.exit_code(), are_ranks ? fmt::format("rank {}: {}", place, words) : words};
}

class Agent {
 public:
  explicit Agent(AgentOptions const& options)
      : options_{options}, ranks_{options.ranks}, budget_{options.max_restarts} {}

  int run() {
    for (int attempt = 1;; ++attempt) {
      auto const mark = CheckpointMark::of(options_.checkpoint);
      auto const end = run_once(attempt);
      bool const is_number_wrong = std::exchange(is_new_number_, false) && end.exit_code == ExitCode::wrong;
      if (is_number_wrong && ranks_ > options_.min_ranks && !asked_to_end_) {
        take_a_rank_less();
        say(fmt::format("attempt {} with {}, after {}", attempt + 1, count_ranks(), end.words));
        continue;
      }
      if (asked_to_end_ || !may_be_tried_again(end.exit_code)) {
        return end.exit_code;
      }
      bool const progress = CheckpointMark::of(options_.checkpoint).is_newer_than(mark);
      bool const has_failed_again = budget_.used() > 0 && !progress;
      auto const pause = budget_.next(progress);
      if (!pause) {
        say(fmt::format("ends after {}, with {} of {} restarts without progress used", end.words, budget_.used(),
                        budget_.most()));
        return end.exit_code;
      }
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

  Verdict run_once(int attempt) {
    auto const starts = rank_starts(options_, ranks_, attempt);
    Processes processes{starts, signals_};
    std::optional<Clock::time_point> deadline;  // once a rank has failed
    while (processes.are_running()) {
      int const signal = signals_.next(deadline);
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
    return verdict_of(processes, starts.size() > 1);
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

  /// False if a signal that asks for the end comes before that.
  bool wait(std::chrono::seconds pause) {
    auto const until = Clock::now() + pause;
    int signal = SIGCHLD;
    while (signal == SIGCHLD) {  // left over from those that have ended
      signal = signals_.next(until);
    }
    return signal == 0;
  }

  AgentOptions const& options_;
  AwaitedSignals signals_;
  int ranks_;
  /// No attempt has ended with as few ranks: status 2 may mean that they do not divide a batch.
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
