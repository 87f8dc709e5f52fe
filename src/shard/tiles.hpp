// SPDX-License-Identifier: Apache-2.0
/// What of the optimizer's states is offloaded, to a disk or to the host's memory, and in which pieces it comes into
/// the device's. Pure arithmetic.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "shard/layout.hpp"
#include "shard/placement.hpp"
#include "shard/places.hpp"

namespace zeroth::shard {

/// Tiles begin at multiples of this many elements: whole blocks of a disk in the narrowest dtype, and whole blocks of
/// sums.
inline constexpr std::int64_t tile_alignment_count = 2048;

/// Where states are that are not in the device's memory.
enum class Tier : bool { disk, host };

/// How much of the optimizer's states is offloaded, and how updates get at it.
struct Offload {
  Tier tier = Tier::disk;
  double ratio = 0;             ///< Of the elements that the optimizer holds. 0: all are in memory.
  std::int64_t tile_count = 0;  ///< Elements that come into memory together, at most.
  int tiles_in_memory = 1;      ///< At once, at most.
  bool reads_ahead = false;     ///< While what came before is updated; otherwise when it is needed.
  bool writes_behind = false;   ///< While what comes next is updated; otherwise before that.
  std::filesystem::path folder;
  std::int64_t piece_bytes = std::int64_t{1} << 20U;  ///< Of a request to the disk.
  int requests = 1;                                   ///< Under way at once.
  std::chrono::milliseconds timeout{600'000};         ///< Of a request.
};

/// Elements of a flat unit, of those that the optimizer of a rank holds, from the first one of these.
struct Tile {
  FlatId flat{};
  Range elements;
};

/// The same on every rank.
struct Tiles {
  ById<FlatId, std::int64_t> in_memory;  ///< How many elements are: the first ones.
  std::vector<Tile> on_disk;             ///< All others, in the order of updates.
  std::int64_t largest_count = 0;        ///< Elements of one.
};

/// What is updated first stays in memory: the next forward begins with it.
[[nodiscard]] Tiles cut_tiles(Layout const& layout, Placement optimizer, Places const& places, Offload const& offload);

}  // namespace zeroth::shard
