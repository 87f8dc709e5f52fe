// SPDX-License-Identifier: Apache-2.0
/// What a parameter server does, and how workers ask for it.
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
/// Tells the servers that this engine ends.
void order_end(detail::EngineState& engine) noexcept;

}  // namespace zeroth::engine
