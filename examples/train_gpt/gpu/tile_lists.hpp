// SPDX-License-Identifier: Apache-2.0
/// A layout of attention as lists for the GPU's kernels: the tiles that each tile visits.
#pragma once
#include <cstdint>
#include <vector>

#include "gpu/tile_visit.hpp"
#include "key_blocks.hpp"

namespace gpt::gpu {

/// The lists of one kernel.
struct TileLists {
  std::vector<std::int32_t> begins;  ///< [lists, tiles + 1], into `entries`.
  std::vector<TileVisit> entries;    ///< By list and tile, in the order of rows.
};

/// Tiles of `visited` keys that each tile of `own` queries reads. Blocks have a multiple of cell_side tokens.
[[nodiscard]] TileLists keys_of_queries(KeyBlocks const& blocks, std::int64_t own, std::int64_t visited);
/// Tiles of `visited` queries that read each tile of `own` keys.
[[nodiscard]] TileLists queries_of_keys(KeyBlocks const& blocks, std::int64_t own, std::int64_t visited);

/// Lists as they are in the GPU's memory.
struct PackedLists {
  std::vector<std::int32_t> words;     ///< The list of each head, `begins`, `entries`.
  std::int64_t begins_at, entries_at;  ///< In `words`.
};
[[nodiscard]] PackedLists pack(KeyBlocks const& blocks, std::int64_t heads, TileLists const& lists);

}  // namespace gpt::gpu
