// SPDX-License-Identifier: Apache-2.0
/// Single parameters to and from the program's memory, and sums over their gradients. All collective, all wait.
#pragma once
#include <cstdint>
#include <span>

#include "engine/exchange.hpp"
#include "engine/share.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// All elements of `param` on every rank, as they are saved.
void read_values(shard::ShardManager& manager, ParamId param, std::span<float> values, Exchange const& exchange);

/// The same values on all ranks, into all that holds them. `other_stages`: where other stages have the parameter too,
/// the ranks of those at this rank's place; null: none has. Throws PeerError if ranks bring different values.
void write_values(shard::ShardManager& manager, model::Description const& model, ParamId param,
                  std::span<float const> values, Exchange const& exchange, comm::Communicator* other_stages);

/// Not collective: the sum of squares of this rank's slice of the reduced gradient of `param`, still scaled.
[[nodiscard]] optim::ExactSum squares_of_slice(shard::ShardManager& manager, ParamId param, Exchange const& exchange);

/// Over all ranks of all stages, of which those that do not have `param` of the whole model bring nothing: the same
/// bits on every rank, at every stage of ZeRO, and in any pipeline. Throws PeerError if ranks ask for different
/// parameters.
[[nodiscard]] optim::ExactSum sum_over_ranks(optim::ExactSum const& mine, Share const& share, ParamId param,
                                             Exchange const& whole);

}  // namespace zeroth::engine
