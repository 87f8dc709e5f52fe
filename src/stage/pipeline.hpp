// SPDX-License-Identifier: Apache-2.0
/// What the stages of a pipeline do in a step, and in which order. Pure logic: every rank can make the lists of all.
#pragma once
#include <cstdint>
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/core/phase.hpp"

namespace zeroth::stage {

/// Forward or backward of one micro-step through the units of a chunk.
struct Action {
  Phase phase = Phase::forward;
  int chunk = 0;  ///< Chunks are counted from the first units of the model on. Stage c % stages has chunk c.
  int micro_step = 0;
  friend bool operator==(Action const&, Action const&) = default;
};
/// What one stage does in a step, in order.
using Actions = std::vector<Action>;

/// By stage: all forward actions, then all backward ones (Huang et al. 2019). Each stage has one chunk.
[[nodiscard]] std::vector<Actions> gpipe(int stages, int micro_steps);
/// Stage s begins with as many forward actions as there are stages from it on, then one backward and one forward action
/// take turns (Narayanan et al. 2019, without their stale weights): activations of no more micro-steps are held.
[[nodiscard]] std::vector<Actions> one_forward_one_backward(int stages, int micro_steps);
/// The schedule that a stage file names.
[[nodiscard]] std::vector<Actions> actions_of(PipelineSchedule schedule, int stages, int micro_steps);
/// Action number `index`, from 0, of that schedule with one stage: no list is made, however many micro-steps there are.
[[nodiscard]] Action action_of_only_stage(PipelineSchedule schedule, std::int64_t micro_steps,
                                          std::int64_t index) noexcept;
/// What in_flight() is of that one.
[[nodiscard]] std::int64_t in_flight_of_only_stage(PipelineSchedule schedule, std::int64_t micro_steps) noexcept;

/// Runs the lists of all stages: an action needs what the chunk before it (forward) or behind it (backward) has made of
/// its micro-step. A channel leads from a stage to each neighbour, and has room for one message that is sent and one
/// that was received ahead. What passes ends with every action done, on every transport, and adds up the gradients of a
/// chunk in the order of micro-steps. Throws ContractError, which names the stage, the action and what it waits for.
void check(std::vector<Actions> const& stages, int micro_steps);

/// The most micro-steps that are between their forward and their backward action at the same time.
[[nodiscard]] int in_flight(Actions const& actions) noexcept;

}  // namespace zeroth::stage
