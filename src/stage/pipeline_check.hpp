// SPDX-License-Identifier: Apache-2.0
/// Checks that a pipeline schedule terminates with all gradients complete.
#pragma once
#include <vector>

#include "stage/pipeline.hpp"

namespace zeroth::stage {

/// Runs the lists of all stages. An action needs the result of its micro-step from the previous chunk (forward) or the
/// next one (backward). A channel leads from a stage to each neighbour; it holds one message being sent and one
/// received ahead. Lists that pass complete every action on every transport, and sum the gradients of a chunk in the
/// order of micro-steps. Throws ContractError, which names the stage, the action and what it waits for.
void check(std::vector<Actions> const& stages, PipelineSize const& size);

}  // namespace zeroth::stage
