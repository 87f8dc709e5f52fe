// SPDX-License-Identifier: Apache-2.0
/// A parameter server of workers that may be stale.
#pragma once

namespace zeroth::detail {
class EngineState;
}

namespace zeroth::engine {

/// Applies an update for each push as it arrives, and answers with new parameters once no worker is too far behind.
/// Returns when all workers' engines have ended.
void serve_stale_workers(detail::EngineState& engine);

}  // namespace zeroth::engine
