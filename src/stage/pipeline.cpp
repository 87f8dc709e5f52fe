// SPDX-License-Identifier: Apache-2.0
#include "stage/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "zeroth/core/error.hpp"

namespace zeroth::stage {
namespace {

constexpr std::size_t down = 0;  // to the next stage
constexpr std::size_t up = 1;

std::string describe(Action const& action) {
  return fmt::format("{} of micro-step {} in chunk {}", action.phase == Phase::forward ? "forward" : "backward",
                     action.micro_step, action.chunk);
}

/// Messages from one stage to a neighbour, numbered in the order in which they are sent.
struct Channel {
  Actions sent;              ///< The sender's actions that made them.
  std::int64_t arrived = 0;  ///< Messages that the receiver has, used or not.
  std::int64_t used = 0;
};

/// The lists on their way.
class Run {
 public:
  Run(std::vector<Actions> const& stages, int chunks)
      : stages_{stages}, chunks_{chunks}, at_(stages.size(), 0), channels_(stages.size()) {}

  /// Does what can be done until nothing can.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        while (at_[stage] < stages_[stage].size() && step(stage)) {
          ++at_[stage];
          moved = true;
        }
      }
    }
  }
  void expect_done() const {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (at_[stage] < stages_[stage].size()) {
        auto const& action = stages_[stage][at_[stage]];
        throw ContractError{fmt::format("the schedule does not end: stage {} waits in {} for {}", stage,
                                        describe(action), what_it_waits_for(stage, action))};
      }
    }
  }

 private:
  struct End {
    std::size_t stage, direction;
  };
  [[nodiscard]] std::size_t beside(std::size_t stage, std::size_t direction) const noexcept {
    return (stage + (direction == down ? 1 : stages_.size() - 1)) % stages_.size();
  }
  /// Who sends what `action` of `stage` needs, by which of its channels.
  [[nodiscard]] std::optional<End> source(std::size_t stage, Action const& action) const noexcept {
    if (action.phase == Phase::forward) {
      return action.chunk == 0 ? std::nullopt : std::optional{End{beside(stage, up), down}};
    }
    return action.chunk + 1 == chunks_ ? std::nullopt : std::optional{End{beside(stage, down), up}};
  }
  [[nodiscard]] std::optional<std::size_t> direction_of(Action const& action) const noexcept {
    bool const forward = action.phase == Phase::forward;
    return action.chunk == (forward ? chunks_ - 1 : 0) ? std::nullopt : std::optional{forward ? down : up};
  }
  /// The action whose result is the message that `action` needs.
  [[nodiscard]] static Action made_by(Action action) noexcept {
    action.chunk += action.phase == Phase::forward ? -1 : 1;
    return action;
  }
  static void deliver(Channel& channel) noexcept {
    channel.arrived = std::min(std::ssize(channel.sent), channel.used + 1);
  }
  /// False: it has to wait.
  bool step(std::size_t stage) {
    auto const& action = stages_[stage][at_[stage]];
    auto const from = source(stage, action);
    auto const to = direction_of(action);
    if (to) {
      auto& out = channels_[stage][*to];
      deliver(out);
      if (out.arrived < std::ssize(out.sent)) {
        return false;
      }
    }
    if (from) {
      auto& in = channels_[from->stage][from->direction];
      deliver(in);
      if (in.arrived == in.used) {
        return false;
      }
      auto const& message = in.sent[static_cast<std::size_t>(in.used)];
      ZEROTH_EXPECTS(message == made_by(action),
                     fmt::format("messages cross: stage {} needs for {} what {} made, and stage {} sends first what {} "
                                 "made",
                                 stage, describe(action), describe(made_by(action)), from->stage, describe(message)));
      ++in.used;
    }
    if (to) {
      channels_[stage][*to].sent.push_back(action);
    }
    return true;
  }
  [[nodiscard]] std::string what_it_waits_for(std::size_t stage, Action const& action) const {
    if (auto const from = source(stage, action)) {
      auto const& in = channels_[from->stage][from->direction];
      if (in.arrived == in.used) {
        return fmt::format("{} at stage {}", describe(made_by(action)), from->stage);
      }
    }
    auto const to = *direction_of(action);
    return fmt::format("stage {} to take the message of {}", beside(stage, to),
                       describe(channels_[stage][to].sent.back()));
  }

  std::vector<Actions> const& stages_;
  int chunks_;
  std::vector<std::size_t> at_;
  std::vector<std::array<Channel, 2>> channels_;
};

/// Each action once, and backward in the order of micro-steps. The number of chunks.
int check_lists(std::vector<Actions> const& stages, int micro_steps) {
  auto const count = static_cast<int>(stages.size());
  ZEROTH_EXPECTS(count >= 1 && micro_steps >= 1,
                 fmt::format("a schedule of {} stages and {} micro-steps: at least one of each", count, micro_steps));
  int chunks = count;
  for (auto const& actions : stages) {
    for (auto const& action : actions) {
      chunks = std::max(chunks, action.chunk + 1);
    }
  }
  ZEROTH_EXPECTS(chunks % count == 0, fmt::format("{} chunks do not divide among {} stages", chunks, count));
  auto const steps = static_cast<std::size_t>(micro_steps);
  for (int stage = 0; stage < count; ++stage) {
    auto const of_stage = static_cast<std::size_t>(chunks / count);
    std::vector<char> forward(of_stage * steps, 0);
    std::vector<int> backwards(of_stage, 0);
    for (auto const& action : stages[static_cast<std::size_t>(stage)]) {
      bool const there = action.chunk >= 0 && action.chunk % count == stage && action.micro_step >= 0 &&
                         action.micro_step < micro_steps;
      ZEROTH_EXPECTS(there, fmt::format("stage {} has {}, which is none of its own", stage, describe(action)));
      auto const chunk = static_cast<std::size_t>(action.chunk / count);
      auto& went = forward[chunk * steps + static_cast<std::size_t>(action.micro_step)];
      if (action.phase == Phase::forward) {
        ZEROTH_EXPECTS(went == 0, fmt::format("stage {} has {} twice", stage, describe(action)));
        went = 1;
        continue;
      }
      ZEROTH_EXPECTS(went != 0, fmt::format("stage {} has {} without forward before it", stage, describe(action)));
      ZEROTH_EXPECTS(action.micro_step == backwards[chunk],
                     fmt::format("stage {} has {} where that of micro-step {} comes: gradients are added up in the "
                                 "order of micro-steps",
                                 stage, describe(action), backwards[chunk]));
      ++backwards[chunk];
    }
    for (std::size_t chunk = 0; chunk < of_stage; ++chunk) {
      ZEROTH_EXPECTS(
          backwards[chunk] == micro_steps,
          fmt::format("stage {} lacks {}", stage,
                      describe({Phase::backward, static_cast<int>(chunk) * count + stage, backwards[chunk]})));
    }
  }
  return chunks;
}

}  // namespace

std::vector<Actions> gpipe(int stages, int micro_steps) {
  std::vector<Actions> all(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    for (auto const phase : {Phase::forward, Phase::backward}) {
      for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
        all[static_cast<std::size_t>(stage)].push_back({phase, stage, micro_step});
      }
    }
  }
  return all;
}

std::vector<Actions> one_forward_one_backward(int stages, int micro_steps) {
  std::vector<Actions> all(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = all[static_cast<std::size_t>(stage)];
    int forward = 0;
    for (int backward = 0; backward < micro_steps; ++backward) {
      for (; forward < std::min(micro_steps, backward + stages - stage); ++forward) {
        actions.push_back({Phase::forward, stage, forward});
      }
      actions.push_back({Phase::backward, stage, backward});
    }
  }
  return all;
}

std::vector<Actions> actions_of(PipelineSchedule schedule, int stages, int micro_steps) {
  return schedule == PipelineSchedule::gpipe ? gpipe(stages, micro_steps)
                                             : one_forward_one_backward(stages, micro_steps);
}

Action action_of_only_stage(PipelineSchedule schedule, std::int64_t micro_steps, std::int64_t index) noexcept {
  bool const all_forward_first = schedule == PipelineSchedule::gpipe;
  bool const forward = all_forward_first ? index < micro_steps : index % 2 == 0;
  return {forward ? Phase::forward : Phase::backward, 0,
          static_cast<int>(all_forward_first ? index % micro_steps : index / 2)};
}

std::int64_t in_flight_of_only_stage(PipelineSchedule schedule, std::int64_t micro_steps) noexcept {
  return schedule == PipelineSchedule::gpipe ? micro_steps : 1;
}

void check(std::vector<Actions> const& stages, int micro_steps) {
  Run run{stages, check_lists(stages, micro_steps)};
  run.run();
  run.expect_done();
}

int in_flight(Actions const& actions) noexcept {
  int now = 0;
  int most = 0;
  for (auto const& action : actions) {
    now += action.phase == Phase::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace zeroth::stage
