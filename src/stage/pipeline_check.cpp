// SPDX-License-Identifier: Apache-2.0
#include "stage/pipeline_check.hpp"

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

/// Messages from one stage to a neighbour, numbered in order of sending.
struct Channel {
  Actions sent;              ///< The sender's actions that produced them.
  std::int64_t arrived = 0;  ///< Messages that the receiver has received, used or not.
  std::int64_t used = 0;
};

/// The state of running the lists.
class Run {
 public:
  Run(std::vector<Actions> const& stages, int chunks)
      : stages_{stages}, chunks_{chunks}, at_(stages.size(), 0), channels_(stages.size()) {}

  /// Runs actions until none can proceed.
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
        throw ContractError{fmt::format("the schedule deadlocks: stage {} waits in {} for {}", stage, describe(action),
                                        what_it_waits_for(stage, action))};
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
  /// The sender of the message that `action` of `stage` needs, and its channel.
  [[nodiscard]] std::optional<End> source(std::size_t stage, Action const& action) const noexcept {
    if (action.phase == Phase::forward) {
      return action.chunk == 0 ? std::nullopt : std::optional{End{beside(stage, up), down}};
    }
    return action.phase == Phase::backward_weights || action.chunk + 1 == chunks_
               ? std::nullopt
               : std::optional{End{beside(stage, down), up}};
  }
  [[nodiscard]] std::optional<std::size_t> direction_of(Action const& action) const noexcept {
    bool const forward = action.phase == Phase::forward;
    return action.phase == Phase::backward_weights || action.chunk == (forward ? chunks_ - 1 : 0)
               ? std::nullopt
               : std::optional{forward ? down : up};
  }
  /// The chunk and micro-step that produce the message that `action` needs.
  [[nodiscard]] static Action made_by(Action action) noexcept {
    action.chunk += action.phase == Phase::forward ? -1 : 1;
    return action;
  }
  /// Whether `made` produces that message. Gradients come from backward or from backward_inputs, whichever the
  /// neighbour runs.
  [[nodiscard]] static bool is_made_by(Action const& needs, Action const& made) noexcept {
    auto const wanted = made_by(needs);
    return made.chunk == wanted.chunk && made.micro_step == wanted.micro_step;
  }
  static void deliver(Channel& channel) noexcept {
    channel.arrived = std::min(std::ssize(channel.sent), channel.used + 1);
  }
  /// Returns false if the action has to wait.
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
      ZEROTH_EXPECTS(
          is_made_by(action, message),
          fmt::format(
              "messages cross: stage {} needs for {} the result of {}, but stage {} first sends the result of {}",
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

/// The progress of a chunk. Actions of each kind must come in the order of micro-steps, because gradients are summed
/// and message memory is assigned in that order.
class ChunkProgress {
 public:
  void take(int stage, Action const& action) {
    switch (action.phase) {
      case Phase::forward: expect(stage, action, forward_ == action.micro_step, forward_); return void(++forward_);
      case Phase::backward:
        expect(stage, action, inputs_ == action.micro_step && weights_ == inputs_, std::max(inputs_, weights_));
        expect_behind(stage, action, forward_, "forward");
        ++inputs_;
        return void(++weights_);
      case Phase::backward_inputs:
        expect(stage, action, inputs_ == action.micro_step, inputs_);
        expect_behind(stage, action, forward_, "forward");
        return void(++inputs_);
      case Phase::backward_weights: break;
    }
    expect(stage, action, weights_ == action.micro_step, weights_);
    expect_behind(stage, action, inputs_, "backward_inputs");
    ++weights_;
  }
  void expect_done(int stage, int chunk, int micro_steps) const {
    auto const lacks = [&](Phase phase, int done) {
      ZEROTH_EXPECTS(done == micro_steps, fmt::format("stage {} lacks {}", stage, describe({phase, chunk, done})));
    };
    lacks(Phase::forward, forward_);
    lacks(inputs_ == weights_ ? Phase::backward : Phase::backward_inputs, inputs_);
    lacks(Phase::backward_weights, weights_);
  }

 private:
  static void expect(int stage, Action const& action, bool good, int next) {
    ZEROTH_EXPECTS(good, fmt::format("stage {} has {}{}", stage, describe(action),
                                     action.micro_step < next
                                         ? std::string{" twice"}
                                         : fmt::format(" before that of micro-step {}: each chunk must take "
                                                       "micro-steps in order, because gradients are summed in it",
                                                       next)));
  }
  static void expect_behind(int stage, Action const& action, int done, char const* what) {
    ZEROTH_EXPECTS(action.micro_step < done,
                   fmt::format("stage {} has {} without {} before it", stage, describe(action), what));
  }

  int forward_ = 0, inputs_ = 0, weights_ = 0;  // completed micro-steps
};

void check_lists(std::vector<Actions> const& stages, PipelineSize const& size) {
  ZEROTH_EXPECTS(
      size.stages >= 1 && size.chunks >= 1 && size.micro_steps >= 1,
      fmt::format("a schedule of {} stages, {} chunks each and {} micro-steps; allowed: at least one of each",
                  size.stages, size.chunks, size.micro_steps));
  ZEROTH_EXPECTS(std::ssize(stages) == size.stages,
                 fmt::format("the schedule has lists for {} stages, but there are {}", stages.size(), size.stages));
  for (int stage = 0; stage < size.stages; ++stage) {
    std::vector<ChunkProgress> progress(static_cast<std::size_t>(size.chunks));
    for (auto const& action : stages[static_cast<std::size_t>(stage)]) {
      bool const there = action.chunk >= 0 && action.chunk < size.all_chunks() && action.chunk % size.stages == stage &&
                         action.micro_step >= 0 && action.micro_step < size.micro_steps;
      ZEROTH_EXPECTS(there, fmt::format("stage {} has {}, which does not belong to it", stage, describe(action)));
      progress[static_cast<std::size_t>(action.chunk / size.stages)].take(stage, action);
    }
    for (int chunk = 0; chunk < size.chunks; ++chunk) {
      progress[static_cast<std::size_t>(chunk)].expect_done(stage, chunk * size.stages + stage, size.micro_steps);
    }
  }
}

}  // namespace

void check(std::vector<Actions> const& stages, PipelineSize const& size) {
  check_lists(stages, size);
  Run run{stages, size.all_chunks()};
  run.run();
  run.expect_done();
}

}  // namespace zeroth::stage
