// SPDX-License-Identifier: Apache-2.0
/// A tile of keys that a tile of queries reads, or the other way round: an entry of a list in the GPU's memory.
#pragma once
#include <cstdint>

namespace gpt::gpu {

inline constexpr int cell_side = 16;  ///< Rows and columns of a cell, which is read as a whole or not at all.

struct alignas(8) TileVisit {
  std::int32_t row;  ///< The first row of the visited tile.
  /// Bit i * n + j: whether cell i of the list's own tile meets cell j of the n of the visited one.
  std::uint32_t cells;
  friend bool operator==(TileVisit const&, TileVisit const&) = default;
};

}  // namespace gpt::gpu
