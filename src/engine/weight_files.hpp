// SPDX-License-Identifier: Apache-2.0
/// Weights to and from a file, straight from and to the shards.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/exchange.hpp"
#include "engine/rank_result.hpp"
#include "engine/share.hpp"
#include "shard/shard_manager.hpp"

namespace zeroth::engine {

/// A model, of which this rank has slices of what its stage and tensor rank have.
struct WholeModel {
  shard::ShardManager& manager;
  Share const& share;
  TensorPart part;
  Exchange of_stage, all;  ///< The ranks that share this rank's states, and those of all.
  /// Of all: the first rank that shares the states of a stage and a tensor rank.
  [[nodiscard]] int first_of(int stage, int tensor) const noexcept {
    return stage * of_stage.world() * part.of + tensor;
  }
};

/// Collective, waits: one safetensors file of the masters of all stages, rounded to `dtype`, written by rank 0. What
/// every rank found: where one of them failed, there is no file. What it throws leaves the ranks apart.
[[nodiscard]] std::vector<RankResult> save_weights(WholeModel const& whole, std::filesystem::path const& file,
                                                   Dtype dtype);

/// Collective, waits. Everything is looked at on every rank before anything is changed on any: where one of the
/// results is a failure, nothing was changed. What it throws leaves the ranks apart. Tensors that `left_out` picks may
/// be there without being the model's.
[[nodiscard]] std::vector<RankResult> load_weights(WholeModel const& whole, std::filesystem::path const& file,
                                                   std::function<bool(std::string const& name)> const& left_out);

}  // namespace zeroth::engine
