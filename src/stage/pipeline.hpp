// SPDX-License-Identifier: Apache-2.0
/// What the stages of a pipeline do in a step, and in which order. Pure logic: every rank can make the lists of all.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/core/phase.hpp"

namespace zeroth::stage {

/// A phase of one micro-step through the units of a chunk.
struct Action {
  Phase phase = Phase::forward;
  int chunk = 0;  ///< Chunks are counted from the first units of the model on. Stage c % stages has chunk c.
  int micro_step = 0;
  friend bool operator==(Action const&, Action const&) = default;
};
/// What one stage does in a step, in order.
using Actions = std::vector<Action>;

/// What a schedule is made for.
struct PipelineSize {
  int stages = 1;
  int chunks = 1;  ///< Of each stage.
  int micro_steps = 1;
  [[nodiscard]] int all_chunks() const noexcept { return stages * chunks; }
};

/// What `stage` does by a schedule that follows a rule. One stage has one chunk, and runs its micro-steps one after the
/// other.
///
/// - gpipe: all forward actions, then all backward ones (Huang et al. 2019).
/// - one_forward_one_backward: stage s begins with as many forward actions as there are stages from it on, then one
///   backward and one forward action take turns (Narayanan et al. 2019, without their stale weights).
/// - interleaved: the same with several chunks, of which `stages` micro-steps each take turns (Narayanan et al. 2021).
///   Stages divide the micro-steps.
/// - zero_bubble: as one_forward_one_backward, with backward divided; stage s holds back up to s micro-steps' gradients
/// of
///   weights, which fill the time in which it would wait (ZB-H1 of Qi et al. 2023).
[[nodiscard]] Actions actions_of(PipelineSchedule schedule, PipelineSize const& size, int stage);
/// What all stages do.
[[nodiscard]] std::vector<Actions> schedule_of(PipelineSchedule schedule, PipelineSize const& size);

/// Actions of a micro-step in each chunk.
[[nodiscard]] constexpr int actions_per_micro_step(PipelineSchedule schedule) noexcept {
  return schedule == PipelineSchedule::zero_bubble ? 3 : 2;
}
/// Action number `index`, from 0, of that schedule with one stage: no list is made, however many micro-steps there are.
[[nodiscard]] Action action_of_only_stage(PipelineSchedule schedule, std::int64_t index) noexcept;

/// Where pass number `index` of `stage` is in an evaluation: forward, with the passes through the model in place of
/// micro-steps. Chunks take turns as in interleaved, and the last turn may have fewer passes.
[[nodiscard]] Action action_of_evaluation(PipelineSize const& size, int stage, int index) noexcept;

/// "forward of micro-step 3 in chunk 1", both counted from 0.
[[nodiscard]] std::string describe(Action const& action);

}  // namespace zeroth::stage
