// SPDX-License-Identifier: Apache-2.0
/// The end of a step, after its update has been enqueued, and the report of the previous step.
#pragma once
#include <optional>

#include "engine/engine_state.hpp"
#include "zeroth/engine/report.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::engine {

/// The pending report of the last step; nullopt if there is none. Waits for that step's decision. Collective.
[[nodiscard]] std::optional<StepReport> take_report(detail::EngineState& engine);
/// This rank's contribution to the sums of the step that ends.
[[nodiscard]] optim::StepSums sums_of_step(detail::EngineState const& engine);
/// Counts the step, which then owes a report. With zeroth.check it also compares replicas in some steps.
void end_step(detail::EngineState& engine);

}  // namespace zeroth::engine
