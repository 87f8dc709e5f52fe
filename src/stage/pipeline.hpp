// SPDX-License-Identifier: Apache-2.0
/// The actions of pipeline stages in a step, and their order. Pure logic: every rank can compute the lists of all
/// stages.
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
  int chunk = 0;  ///< Chunks are numbered along the model's units. Stage c % stages has chunk c.
  int micro_step = 0;
  friend bool operator==(Action const&, Action const&) = default;
};
/// One stage's actions in a step, in order.
using Actions = std::vector<Action>;

/// The dimensions of a schedule.
struct PipelineSize {
  int stages = 1;
  int chunks = 1;  ///< Per stage.
  int micro_steps = 1;
  [[nodiscard]] int all_chunks() const noexcept { return stages * chunks; }
};

/// The actions of `stage` under a built-in schedule. A single stage has one chunk, and runs its micro-steps one after
/// the other.
///
/// - gpipe: all forward actions, then all backward ones (Huang et al. 2019).
/// - one_forward_one_backward: stage s begins with as many forward actions as there are stages from s on, then
///   alternates between backward and forward (Narayanan et al. 2019, without their stale weights).
/// - interleaved: the same with several chunks, which take turns by `stages` micro-steps (Narayanan et al. 2021). The
///   number of micro-steps must be a multiple of `stages`.
/// - zero_bubble: like one_forward_one_backward, with backward divided; stage s defers the weight gradients of up to s
///   micro-steps, to fill the time in which it would wait (ZB-H1 of Qi et al. 2023).
[[nodiscard]] Actions actions_of(PipelineSchedule schedule, PipelineSize const& size, int stage);
/// The actions of all stages.
[[nodiscard]] std::vector<Actions> schedule_of(PipelineSchedule schedule, PipelineSize const& size);

/// Number of actions of a micro-step in each chunk.
[[nodiscard]] constexpr int actions_per_micro_step(PipelineSchedule schedule) noexcept {
  return schedule == PipelineSchedule::zero_bubble ? 3 : 2;
}
/// Action number `index`, from 0, of the schedule with one stage. Makes no list, so its cost does not grow with the
/// micro-steps.
[[nodiscard]] Action action_of_only_stage(PipelineSchedule schedule, std::int64_t index) noexcept;

/// The action that pass number `index` of `stage` stands for in an evaluation: forward, with passes through the model
/// in place of micro-steps. Chunks take turns as in interleaved; the last turn may have fewer passes.
[[nodiscard]] Action action_of_evaluation(PipelineSize const& size, int stage, int index) noexcept;

/// "forward of micro-step 3 in chunk 1", both counted from 0.
[[nodiscard]] std::string describe(Action const& action);

}  // namespace zeroth::stage
