// SPDX-License-Identifier: Apache-2.0
/// Copies single parameters to and from the program's memory, and sums over their gradients. All functions but
/// squares_of_slice() are collective and wait.
#pragma once
#include <cstdint>
#include <span>

#include "engine/exchange.hpp"
#include "engine/share.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// The ranks that have the slices of parameters: consecutive ones, in the order of places.
struct SliceOwners {
  int first = 0, count = 1;
};

/// Copies all elements of `param`, as they are saved, from `owners` to every rank. A rank that does not want them gives
/// an empty span.
void read_values(shard::ShardManager& manager, ParamId param, std::span<float> values, SliceOwners owners,
                 Exchange const& exchange);

/// Sets what this rank holds of `param`. Not collective.
void store_values(shard::ShardManager& manager, ParamId param, std::span<float const> values, device::Device& device);

/// Sets `param` to the same values in all memory that holds it. `other_stages`: if other stages have the parameter too,
/// the communicator of the ranks at this rank's place in them; null otherwise. Throws PeerError if ranks give different
/// values.
void write_values(shard::ShardManager& manager, model::Description const& model, ParamId param,
                  std::span<float const> values, Exchange const& exchange, comm::Communicator* other_stages);

/// Exchanges all parameters with their averages (zeroth.ema.decay).
void exchange_averages(shard::ShardManager& manager);

/// The sum of squares of this rank's slice of the reduced gradient of `param`, still scaled. Not collective.
[[nodiscard]] optim::ExactSum squares_of_slice(shard::ShardManager& manager, ParamId param, Exchange const& exchange);

/// Sums over all ranks of all stages; ranks without `param` of the whole model add nothing. The result has the same
/// bits on every rank, at every ZeRO stage and in any pipeline. Throws PeerError if ranks ask for different parameters.
[[nodiscard]] optim::ExactSum sum_over_ranks(optim::ExactSum const& mine, Share const& share, ParamId param,
                                             Exchange const& whole);

}  // namespace zeroth::engine
