// SPDX-License-Identifier: Apache-2.0
/// The work of a parameter server, and the workers' requests.
#pragma once
#include "shard/server_links.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::detail {
class EngineState;
}

namespace zeroth::engine {

/// The rules by which this step is decided. The same on workers and servers.
[[nodiscard]] optim::StepRules rules_for(detail::EngineState const& engine, StepOptions const& options);

/// Carries out orders until the workers' engine has ended.
void serve(detail::EngineState& engine);

/// Tells the servers to decide and update, if there are any. Call it on all workers, before they decide.
void order_step(detail::EngineState& engine, StepOptions const& options);
/// If workers may be stale: sends the sums of this worker's step after its gradients, and begins to receive the
/// servers' answers. Call it on all workers, after they have decided.
void push_step(detail::EngineState& engine, StepOptions const& options);
/// Adds the servers' answers to the report of the last step.
void add_staleness(detail::EngineState& engine, StepReport& report);
/// The step options in the order `step`.
[[nodiscard]] StepOptions options_of(shard::Order const& step);
/// Tells the servers that this engine ends.
void order_end(detail::EngineState& engine) noexcept;

}  // namespace zeroth::engine
