// SPDX-License-Identifier: Apache-2.0
/// Whether a schedule of a pipeline ends with every gradient there.
#pragma once
#include <vector>

#include "stage/pipeline.hpp"

namespace zeroth::stage {

/// Runs the lists of all stages: an action needs what the chunk before it (forward) or behind it (backward) has made of
/// its micro-step. A channel leads from a stage to each neighbour, and has room for one message that is sent and one
/// that was received ahead. What passes ends with every action done, on every transport, and adds up the gradients of a
/// chunk in the order of micro-steps. Throws ContractError, which names the stage, the action and what it waits for.
void check(std::vector<Actions> const& stages, PipelineSize const& size);

}  // namespace zeroth::stage
