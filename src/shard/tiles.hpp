// SPDX-License-Identifier: Apache-2.0
/// Which of the optimizer's states are offloaded (to a disk or to the host's memory), which of the parameters' shards
/// are offloaded to a disk, and in which pieces they come into the device's memory. Pure arithmetic.
#pragma once
#include <cstdint>
#include <vector>

#include "shard/layout.hpp"
#include "shard/placement.hpp"
#include "shard/places.hpp"
#include "zeroth/device/storage.hpp"

namespace zeroth::shard {

struct PlanRequest;

/// Tiles begin at multiples of this many elements: whole blocks of a disk in the narrowest dtype, and whole blocks of
/// sums.
inline constexpr std::int64_t tile_alignment_count = 2048;

/// The size of a full tile if `count` elements were requested.
[[nodiscard]] constexpr std::int64_t tile_count(std::int64_t count) noexcept {
  return count < tile_alignment_count ? tile_alignment_count : count / tile_alignment_count * tile_alignment_count;
}

/// The storage of states that are not in the device's memory.
enum class Tier : bool { disk, host };

/// How much of the optimizer's states is offloaded, and how updates access it.
struct Offload {
  Tier tier = Tier::disk;
  double ratio = 0;                ///< Fraction of the optimizer's elements that is offloaded. 0: all are in memory.
  std::int64_t tile_count = 0;     ///< Maximum elements that come into memory together.
  int tiles_in_memory = 1;         ///< Maximum number of tiles in memory at the same time.
  bool reads_ahead = false;        ///< Reads a tile during the update of earlier ones; otherwise when it is needed.
  bool writes_behind = false;      ///< Writes a tile during the update of later ones; otherwise before it.
  int host_threads = 0;            ///< Threads that update in the host's memory: see HostStates. 0: the device updates.
  device::StorageOptions storage;  ///< Options of the disk, without size.
  /// Whether any transfer runs concurrently with updates on the device.
  [[nodiscard]] bool runs_beside() const noexcept { return reads_ahead || writes_behind; }
};

/// How much of a rank's sharded parameters is on a disk, by whole flat units, and how gathers and updates access it.
struct ParameterOffload {
  /// Ratio 0: all is in memory. A tile is the maximum content of a buffer; `tiles_in_memory` are for updates.
  Offload disk;
  std::int64_t in_memory_count = 0;  ///< Maximum elements that stay in memory.
  int gather_buffers = 1;            ///< For gathers.
};

/// A range of one flat unit, counted from the first element that a rank's optimizer holds.
struct Tile {
  FlatId flat{};
  Range elements;
};

/// The tiles of all flat units, the same on every rank.
struct Tiles {
  ById<FlatId, std::int64_t> in_memory;  ///< How many elements are in memory: the first ones.
  std::vector<Tile> on_disk;             ///< All others, in the order of updates.
  std::int64_t largest_count = 0;        ///< Elements of the largest tile.
};

/// Keeps in memory what is updated first, because the next forward begins with it. Flat units whose only states are
/// their parameters have no tiles.
[[nodiscard]] Tiles cut_tiles(Layout const& layout, ById<FlatId, char> const& has_states, Placement optimizer,
                              Places const& places, Offload const& offload);

/// Selects the flat units whose parameters are on the disk. What forward uses first stays in memory, as far as it fits.
/// Parameters that every rank has whole are in memory.
[[nodiscard]] ById<FlatId, char> parameters_on_disk(Layout const& layout, PlanRequest const& request);

/// Cuts their trainable elements into tiles, in the order of updates. The tiles end where those of the optimizer's
/// states do, and have at most `most_count` elements, rounded down to whole blocks.
[[nodiscard]] std::vector<Tile> cut_parameters(Layout const& layout, Tiles const& states,
                                               ById<FlatId, char> const& on_disk, std::int64_t most_count);

}  // namespace zeroth::shard
