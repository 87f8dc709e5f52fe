// SPDX-License-Identifier: Apache-2.0
/// Single parameters to and from the program's memory, and sums over their gradients. All collective, all wait.
#pragma once
#include <cstdint>
#include <span>

#include "engine/exchange.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// All elements of `param` on every rank, as they are saved.
void read_values(shard::ShardManager& manager, ParamId param, std::span<float> values, Exchange const& exchange);

/// The same values on all ranks, into all that holds them. Throws PeerError if ranks bring different ones.
void write_values(shard::ShardManager& manager, model::Description const& model, ParamId param,
                  std::span<float const> values, Exchange const& exchange);

/// The sum of squares of the reduced gradient of `param`, still scaled: the same bits on every rank and at every stage.
[[nodiscard]] optim::ExactSum sum_of_squares(shard::ShardManager& manager, ParamId param, Exchange const& exchange);

}  // namespace zeroth::engine
