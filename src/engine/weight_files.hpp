// SPDX-License-Identifier: Apache-2.0
/// Saves and loads weights between a file and the shards directly.
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

/// A model of which this rank holds slices of its stage's and tensor rank's part.
struct WholeModel {
  shard::ShardManager& manager;
  Share const& share;
  TensorPart part;
  Exchange of_stage, all;  ///< The ranks that share this rank's states, and all ranks.
  /// The rank in `all` of the first rank that shares the states of a stage and a tensor rank.
  [[nodiscard]] int first_of(int stage, int tensor) const noexcept {
    return stage * of_stage.world() * part.of + tensor;
  }
};

/// Writes one safetensors file of the masters of all stages, rounded to `dtype`, on rank 0. Collective; waits. Returns
/// every rank's result: if one failed, there is no file. If it throws, the ranks have diverged.
[[nodiscard]] std::vector<RankResult> save_weights(WholeModel const& whole, std::filesystem::path const& file,
                                                   Dtype dtype);

/// Loads weights. Collective; waits. Every rank checks everything before any rank changes anything: if one result is a
/// failure, nothing was changed. If it throws, the ranks have diverged. The file may have tensors that the model lacks
/// if `left_out` selects them.
[[nodiscard]] std::vector<RankResult> load_weights(WholeModel const& whole, std::filesystem::path const& file,
                                                   std::function<bool(std::string const& name)> const& left_out);

}  // namespace zeroth::engine
