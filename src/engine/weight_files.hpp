// SPDX-License-Identifier: Apache-2.0
/// Weights to and from a file, straight from and to the shards.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/exchange.hpp"
#include "engine/finding.hpp"
#include "shard/shard_manager.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

/// Collective, waits: one safetensors file of the masters, rounded to `dtype`, written by rank 0. What every rank
/// found: where one of them failed, there is no file. What it throws leaves the ranks apart.
[[nodiscard]] std::vector<Finding> save_weights(shard::ShardManager& manager, model::Description const& model,
                                                std::filesystem::path const& file, Dtype dtype,
                                                Exchange const& exchange);

/// Collective, waits. Everything is looked at on every rank before anything is changed on any: where one of the
/// findings is a failure, nothing was changed. What it throws leaves the ranks apart. Tensors that `left_out` picks may
/// be there without being the model's.
[[nodiscard]] std::vector<Finding> load_weights(shard::ShardManager& manager, model::Description const& model,
                                                std::filesystem::path const& file,
                                                std::function<bool(std::string const& name)> const& left_out,
                                                Exchange const& exchange);

}  // namespace zeroth::engine
