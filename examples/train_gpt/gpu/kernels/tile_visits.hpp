// SPDX-License-Identifier: Apache-2.0
/// The tiles of keys that a tile of queries reads, and the tiles of queries that read a tile of keys: all up to the
/// diagonal, or those of a list. A kernel has one of the two as its `Reads`.
#pragma once
#include <cmath>

#include "gpu/kernels/heads.hpp"
#include "gpu/tile_visit.hpp"

namespace gpt::gpu {

/// The cells of a visited tile that 16 rows meet, and a distance between the rows of both, a multiple of 16.
struct EveryCell {
  int distance;
  [[nodiscard]] ZEROTH_DEVICE static constexpr bool any() { return true; }
  [[nodiscard]] ZEROTH_DEVICE static constexpr bool all() { return true; }
  [[nodiscard]] ZEROTH_DEVICE static constexpr bool has(int /*cell*/) { return true; }
  [[nodiscard]] ZEROTH_DEVICE int apart() const { return distance; }
};
/// Both are in one number, because kernels need registers for other things.
template <int count>
class SomeCells {
 public:
  ZEROTH_DEVICE SomeCells(std::uint32_t bits, int distance) : both_{static_cast<std::uint32_t>(distance) | bits} {}
  [[nodiscard]] ZEROTH_DEVICE bool any() const { return (both_ & every) != 0; }
  [[nodiscard]] ZEROTH_DEVICE bool all() const { return (both_ & every) == every; }
  [[nodiscard]] ZEROTH_DEVICE bool has(int cell) const { return (both_ >> cell & 1U) != 0; }
  [[nodiscard]] ZEROTH_DEVICE int apart() const { return static_cast<int>(both_ & ~(cell_side - 1U)); }

 private:
  static_assert(count <= 4 && cell_side == 16);
  static constexpr std::uint32_t every = (1U << count) - 1;
  std::uint32_t both_;
};

/// Causal attention without a layout.
struct ReadsAll {
  static constexpr bool has_lists = false;

  template <class Index>
  struct Visit {
    Index row;
    [[nodiscard]] ZEROTH_DEVICE static EveryCell cells_of(int /*own_cell*/, int distance = 0) { return {distance}; }
  };
  /// The tiles of `rows` rows from `begin` to `end`.
  template <int rows, class Index>
  struct Visits {
    static constexpr int step = rows;
    Index begin, end;
    [[nodiscard]] ZEROTH_DEVICE static Visit<Index> at(Index i) { return {i}; }
    /// Alternates between 0 and 1.
    [[nodiscard]] ZEROTH_DEVICE int side(Index i) const { return static_cast<int>((i - begin) / rows % 2); }
  };
  /// The visits of a tile with `own` rows to tiles with `rows` rows.
  template <int own, int rows, class Index>
  [[nodiscard]] ZEROTH_DEVICE static Visits<rows, Index> visits(Heads const& /*h*/, HeadTile const& /*tile*/,
                                                                Index begin, Index end) {
    return {begin, end};
  }
};

/// Causal attention with a layout. Every tile has at least one visit, and visits are in the order of rows.
struct ReadsListed {
  static constexpr bool has_lists = true;

  std::int32_t const* list_of_head;  ///< [heads]
  std::int32_t const* begins;        ///< [lists, tiles + 1]
  TileVisit const* entries;

  template <int own, int rows>
  struct Visit {
    int row;
    std::uint32_t bits;
    [[nodiscard]] ZEROTH_DEVICE auto cells_of(int own_cell, int distance = 0) const {
      constexpr int count = rows / cell_side;
      if constexpr (own == cell_side && count == 1) {
        return EveryCell{distance};  // otherwise there would be no visit
      } else {
        return SomeCells<count>{bits >> (own_cell * count) & ((1U << count) - 1), distance};
      }
    }
  };
  template <int own, int rows>
  struct Visits {
    static constexpr int step = 1;
    TileVisit const* entries;
    int begin, end;
    [[nodiscard]] ZEROTH_DEVICE Visit<own, rows> at(int i) const {
      TileVisit const entry = entries[i];
      return {entry.row, entry.cells};
    }
    [[nodiscard]] ZEROTH_DEVICE static int side(int i) { return static_cast<int>(static_cast<unsigned>(i) % 2); }
  };
  template <int own, int rows, class Index>
  [[nodiscard]] ZEROTH_DEVICE Visits<own, rows> visits(Heads const& h, HeadTile const& tile, Index /*begin*/,
                                                       Index /*end*/) const {
    static_assert(own / cell_side * (rows / cell_side) <= 32);
    std::int32_t const* const at = begins + std::int64_t{list_of_head[tile.head]} * (h.tiles(own) + 1) + tile.tile;
    return {entries, at[0], at[1]};
  }
};

/// The largest score so far, for exponentials relative to it. A row that has read nothing yet has -infinity: its sums
/// stay 0.
template <class Reads>
[[nodiscard]] ZEROTH_DEVICE inline float finite_largest(float largest) {
  if constexpr (Reads::has_lists) {
    return largest == -INFINITY ? 0.0F : largest;
  } else {
    return largest;
  }
}

}  // namespace gpt::gpu
