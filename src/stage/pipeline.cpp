// SPDX-License-Identifier: Apache-2.0
#include "stage/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stage/sweep.hpp"

namespace zeroth::stage {
namespace {

Actions all_forward_first(PipelineSize const& size, int stage) {
  Actions actions;
  for (auto const phase : {Phase::forward, Phase::backward}) {
    for (int micro_step = 0; micro_step < size.micro_steps; ++micro_step) {
      actions.push_back({phase, stage, micro_step});
    }
  }
  return actions;
}

Actions one_forward_one_backward(PipelineSize const& size, int stage) {
  Actions actions;
  int forward = 0;
  for (int backward = 0; backward < size.micro_steps; ++backward) {
    for (; forward < std::min(size.micro_steps, backward + size.stages - stage); ++forward) {
      actions.push_back({Phase::forward, stage, forward});
    }
    actions.push_back({Phase::backward, stage, backward});
  }
  return actions;
}

Actions interleaved(PipelineSize const& size, int stage) {
  auto const stages = size.stages;
  auto const chunks = size.chunks;
  auto const all = size.micro_steps * chunks;
  // Chunks take turns, `stages` micro-steps at a time: forward from the first chunk on, backward from the last one.
  auto const action = [&](Phase phase, int index) {
    auto const of_round = stages * chunks;
    auto const turn = index % of_round / stages;
    auto const chunk = phase == Phase::forward ? turn : chunks - 1 - turn;
    return Action{phase, chunk * stages + stage, index / of_round * stages + index % stages};
  };
  Actions actions;
  int forward = 0;
  auto const ahead = std::min(all, 2 * (stages - stage - 1) + (chunks - 1) * stages);
  for (int backward = 0; backward < all; ++backward) {
    for (; forward < std::min(all, ahead + backward + 1); ++forward) {
      actions.push_back(action(Phase::forward, forward));
    }
    actions.push_back(action(Phase::backward, backward));
  }
  return actions;
}

Actions zero_bubble(PipelineSize const& size, int stage) {
  Actions actions;
  int forward = 0;
  int weights = 0;
  for (int inputs = 0; inputs < size.micro_steps; ++inputs) {
    for (; forward < std::min(size.micro_steps, inputs + size.stages - stage); ++forward) {
      actions.push_back({Phase::forward, stage, forward});
    }
    actions.push_back({Phase::backward_inputs, stage, inputs});
    if (inputs + 1 - weights > stage) {
      actions.push_back({Phase::backward_weights, stage, weights++});
    }
  }
  for (; weights < size.micro_steps; ++weights) {
    actions.push_back({Phase::backward_weights, stage, weights});
  }
  return actions;
}

}  // namespace

Actions actions_of(PipelineSchedule schedule, PipelineSize const& size, int stage) {
  if (size.stages == 1) {
    Actions actions;
    for (int index = 0; index < size.micro_steps * actions_per_micro_step(schedule); ++index) {
      actions.push_back(action_of_only_stage(schedule, index));
    }
    return actions;
  }
  switch (schedule) {
    case PipelineSchedule::gpipe: return all_forward_first(size, stage);
    case PipelineSchedule::interleaved: return interleaved(size, stage);
    case PipelineSchedule::zero_bubble: return zero_bubble(size, stage);
    case PipelineSchedule::one_forward_one_backward:
    case PipelineSchedule::file: break;  // a schedule file has its own order
  }
  return one_forward_one_backward(size, stage);
}

std::vector<Actions> schedule_of(PipelineSchedule schedule, PipelineSize const& size) {
  std::vector<Actions> all;
  for (int stage = 0; stage < size.stages; ++stage) {
    all.push_back(actions_of(schedule, size, stage));
  }
  return all;
}

Action action_of_only_stage(PipelineSchedule schedule, std::int64_t index) noexcept {
  auto const phases = std::int64_t{actions_per_micro_step(schedule)};
  auto const place = index % phases;
  auto const phase = place == 0    ? Phase::forward
                     : phases == 2 ? Phase::backward
                     : place == 1  ? Phase::backward_inputs
                                   : Phase::backward_weights;
  return {phase, 0, static_cast<int>(index / phases)};
}

Action action_of_evaluation(PipelineSize const& size, int stage, int index) noexcept {
  auto const of_round = size.all_chunks();
  auto const before = index / of_round * size.stages;
  auto const passes = std::min(size.stages, size.micro_steps - before);
  auto const in_round = index % of_round;
  return {Phase::forward, in_round / passes * size.stages + stage, before + in_round % passes};
}

std::string describe(Action const& action) {
  return fmt::format("{} of micro-step {} in chunk {}", name_of(action.phase), action.micro_step, action.chunk);
}

}  // namespace zeroth::stage
