// SPDX-License-Identifier: Apache-2.0
/// Joins the parts of parameters that tensor ranks divide, and compares what they hold alike.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/exchange.hpp"
#include "engine/runtime.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// Reads a whole parameter in fp32, joined over tensor ranks if they divide it. Collective; waits.
void read_values(shard::ShardManager& manager, ParamId param, std::span<float> values, Runtime const& runtime);
/// Sets a whole parameter. `other_stages`: as in parameter_values.hpp. Throws PeerError if ranks with the same part
/// give different values.
void write_values(shard::ShardManager& manager, ParamId param, std::span<float const> values, Runtime const& runtime,
                  comm::Communicator* other_stages);

/// Compares the parameters that all tensor ranks hold whole, and their optimizer states with States::with. Collective;
/// waits. Throws PeerError on all of them, which names the first unit that differs. `after`: as in compare_replicas().
void compare_tensor_replicas(shard::ShardManager& manager, shard::States states, std::string_view after,
                             Exchange const& tensor);
/// Compares the reduced gradients in this rank's slices that all tensor ranks write whole, except partial sums. Call
/// when they are reduced. The error names the first parameter that differs.
void compare_whole_gradients(shard::ShardManager& manager, int place, std::int64_t step, Exchange const& tensor);
/// Throws PeerError if all tensor ranks wrote the same gradient for a parameter that is partial: the sum is then a
/// multiple of the gradient. Needs the addends of this step, and at least least_nonzero_addend of them that are not 0
/// in this rank's slice; ranks that have fewer do not compare. Collective; waits.
inline constexpr std::int64_t least_nonzero_addend = 16;
void compare_addends(shard::ShardManager& manager, std::int64_t step, Exchange const& tensor);

}  // namespace zeroth::engine
