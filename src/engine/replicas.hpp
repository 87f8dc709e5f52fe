// SPDX-License-Identifier: Apache-2.0
/// Consistency check of replicated states; names the ranks that diverged.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "engine/exchange.hpp"
#include "engine/safetensors_reader.hpp"
#include "engine/share.hpp"
#include "shard/shard_manager.hpp"

namespace zeroth::engine {

/// Number of steps between two comparisons with zeroth.check.
inline constexpr std::int64_t replica_check_steps = 100;

/// Compares the states that every rank holds whole, and those that replicas in the groups share. Collective; waits.
/// Does nothing if there are none. Reads the states once and exchanges 8 bytes per rank, and the hashes of all units
/// only on a mismatch. Throws PeerError on every rank, which names the ranks that differ from the first one that should
/// hold the same, and the first unit of each. `after`: the preceding event, as in "after step 100".
void compare_replicas(shard::ShardManager& manager, shard::Layout const& layout, shard::States states,
                      std::string_view after, Exchange const& exchange);

/// Compares this rank's slices of tied parameters with those in other stages. Collective on all ranks that have them;
/// waits. `exchange` is among the ranks to compare. Throws PeerError on all of them, which names the ranks that differ
/// and the parameter.
void compare_ties(shard::ShardManager& manager, shard::States states, std::string_view after, Exchange const& exchange);

/// A hash of a few values in the file, for each parameter of the whole model.
[[nodiscard]] std::vector<std::uint64_t> sample(SafetensorsReader const& reader, Share const& model);

/// Compares the samples of the files that ranks have opened, so that slices of different files do not end up in one
/// model. Collective; waits. Throws PeerError as compare_replicas() does, with the parameter.
void compare_files(std::span<std::uint64_t const> samples, std::filesystem::path const& file, Share const& model,
                   Exchange const& whole);

}  // namespace zeroth::engine
