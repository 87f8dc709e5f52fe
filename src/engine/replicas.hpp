// SPDX-License-Identifier: Apache-2.0
/// What all ranks should have the same of: compared, so that ranks that came apart are named.
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

/// With zeroth.check, how many steps lie between two comparisons.
inline constexpr std::int64_t replica_check_steps = 100;

/// Collective, waits: compares the states that every rank holds whole, and what replicas in the groups hold; nothing
/// where there is none. Reads them once, and exchanges 8 bytes a rank, all units' hashes only where those differ.
/// Throws PeerError on every rank, which names the ranks that differ from the first that should hold the same, and the
/// first unit of each. `after`: what came before, as in "after step 100".
void compare_replicas(shard::ShardManager& manager, shard::Layout const& layout, shard::States states,
                      std::string_view after, Exchange const& exchange);

/// Collective on all that have tied parameters together, waits: compares this rank's slices of these with those of the
/// ranks that have the same in other stages. `exchange` says where. Throws PeerError on every one of them, which names
/// the ranks that differ and the parameter.
void compare_ties(shard::ShardManager& manager, shard::States states, std::string_view after, Exchange const& exchange);

/// By parameter of the whole model, a hash of a few of its values in a file.
[[nodiscard]] std::vector<std::uint64_t> sample(SafetensorsReader const& reader, Share const& model);

/// Collective, waits: compares the samples of the files that the ranks have opened, so that slices of different files
/// do not end up in one model. Throws PeerError as above, with the parameter.
void compare_files(std::span<std::uint64_t const> samples, std::filesystem::path const& file, Share const& model,
                   Exchange const& whole);

}  // namespace zeroth::engine
