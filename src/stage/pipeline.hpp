// SPDX-License-Identifier: Apache-2.0
/// What the stages of a pipeline do in a step, and in which order. Pure logic: every rank can make the lists of all.
#pragma once
#include <vector>

#include "zeroth/config/settings.hpp"
#include "zeroth/core/phase.hpp"

namespace zeroth::stage {

/// Forward or backward of one micro-step through the units of a chunk.
struct Action {
  Phase phase = Phase::forward;
  int chunk = 0;  ///< From the first units of the model to the last ones. Chunk c is of stage c % stages.
  int micro_step = 0;
  friend bool operator==(Action const&, Action const&) = default;
};
/// In order.
using Actions = std::vector<Action>;

/// All forward actions, then all backward ones (Huang et al. 2019), by stage. A chunk a stage.
[[nodiscard]] std::vector<Actions> gpipe(int stages, int micro_steps);
/// Stage s begins with as many forward actions as there are stages from it on, then one backward and one forward action
/// take turns (Narayanan et al. 2019, without their stale weights): activations of no more micro-steps are held.
[[nodiscard]] std::vector<Actions> one_forward_one_backward(int stages, int micro_steps);
/// The one that a stage file names.
[[nodiscard]] std::vector<Actions> actions_of(PipelineSchedule schedule, int stages, int micro_steps);

/// Runs the lists of all stages: an action needs what the chunk before it (forward) or behind it (backward) has made of
/// its micro-step. A channel leads from a stage to each neighbour, and has room for one message that is sent and one
/// that was received ahead. What passes ends with every action done, on every transport, and adds up the gradients of a
/// chunk in the order of micro-steps. Throws ContractError, which names the stage, the action and what it waits for.
void check(std::vector<Actions> const& stages, int micro_steps);

/// The most micro-steps that are between their forward and their backward action at the same time.
[[nodiscard]] int in_flight(Actions const& actions) noexcept;

}  // namespace zeroth::stage
