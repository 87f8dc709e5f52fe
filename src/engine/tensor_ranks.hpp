// SPDX-License-Identifier: Apache-2.0
/// What tensor ranks have parts of, or have the same: values of parameters put together, and replicas compared.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/exchange.hpp"
#include "engine/runtime.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// Collective, waits: all of a parameter in fp32, of what tensor ranks have together where they cut it.
void read_values(shard::ShardManager& manager, ParamId param, std::span<float> values, Runtime const& runtime);
/// Likewise sets it. `other_stages`: as in parameter_values.hpp. Throws PeerError where ranks with the same part gave
/// different values.
void write_values(shard::ShardManager& manager, ParamId param, std::span<float const> values, Runtime const& runtime,
                  comm::Communicator* other_stages);

/// Collective, waits: compares what this rank holds of parameters, and with States::with of the optimizer's states,
/// that all tensor ranks have whole. Throws PeerError on all of them, with the first unit that differs. `after` as in
/// compare_replicas().
void compare_tensor_replicas(shard::ShardManager& manager, shard::States states, std::string_view after,
                             Exchange const& tensor);
/// Likewise the gradients of this rank's slices that all tensor ranks write whole, and are no parts of a sum; when they
/// are reduced. With the first parameter that differs.
void compare_whole_gradients(shard::ShardManager& manager, int place, std::int64_t step, Exchange const& tensor);

}  // namespace zeroth::engine
