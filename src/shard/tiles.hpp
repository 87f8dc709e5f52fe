// SPDX-License-Identifier: Apache-2.0
/// What of the optimizer's states is offloaded, to a disk or to the host's memory, what of the parameters' shards to a
/// disk, and in which pieces it comes into the device's memory. Pure arithmetic.
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

/// The elements of a whole tile that asked for `count` of them.
[[nodiscard]] constexpr std::int64_t tile_count(std::int64_t count) noexcept {
  return count < tile_alignment_count ? tile_alignment_count : count / tile_alignment_count * tile_alignment_count;
}

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
  int host_threads = 0;         ///< That update in the host's memory: see HostStates. 0: tiles come into the device's.
  std::filesystem::path folder;
  std::int64_t piece_bytes = std::int64_t{1} << 20U;  ///< Of a request to the disk.
  int requests = 1;                                   ///< Under way at once.
  std::chrono::milliseconds timeout{600'000};         ///< Of a request.
  /// Does anything run beside updates by the device?
  [[nodiscard]] bool runs_beside() const noexcept { return reads_ahead || writes_behind; }
};

/// How much of what a rank holds of cut parameters is on a disk, by whole flat units, and how gathers and updates get
/// at it.
struct ParameterOffload {
  /// Ratio 0: all is in memory. A tile is what a buffer holds at most, and `tiles_in_memory` are for updates.
  Offload disk;
  std::int64_t in_memory_count = 0;  ///< Elements that stay in memory, at most.
  int gather_buffers = 1;            ///< For gathers.
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

/// Of which flat units the parameters are on the disk. What forward uses first stays in memory, as far as there is room
/// for it. Those that every rank has whole are in memory.
[[nodiscard]] ById<FlatId, char> parameters_on_disk(Layout const& layout, Placements const& placements,
                                                    Places const& places, ParameterOffload const& offload);

/// Their trainable elements, in the order of updates: tiles that end where those of the optimizer's states do, and have
/// at most `most_count` elements, rounded down to whole blocks.
[[nodiscard]] std::vector<Tile> cut_parameters(Layout const& layout, Tiles const& states,
                                               ById<FlatId, char> const& on_disk, std::int64_t most_count);

}  // namespace zeroth::shard
