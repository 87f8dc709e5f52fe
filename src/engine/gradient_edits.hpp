// SPDX-License-Identifier: Apache-2.0
/// Lets a program change gradients between their reduction and the update.
#pragma once
#include <functional>

#include "shard/shard_manager.hpp"
#include "zeroth/engine/reduced_gradient.hpp"

namespace zeroth::engine {

/// Calls `edit` for the gradients that this rank's optimizer reads, in the order of updates, then computes their sums
/// of squares again. Call it once the step's gradients are reduced. Waits.
void edit_gradients(shard::ShardManager& manager, double scale,
                    std::function<void(ReducedGradient const&)> const& edit);

}  // namespace zeroth::engine
