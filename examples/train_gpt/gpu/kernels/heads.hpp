// SPDX-License-Identifier: Apache-2.0
/// The data that attention's kernels work on.
#pragma once
#include "gpu/kernels/cross_entropy.hpp"

namespace gpt::gpu {

/// The dimensions of attention: tokens in sequences of `context`, heads of `width` channels.
/// 32-bit numbers, because kernels need registers for other things; products are computed in 64 bits.
struct Heads {
  int sequences, context, heads, width;
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t channels() const { return std::int64_t{heads} * width; }
  [[nodiscard]] ZEROTH_HOST_DEVICE int tiles(int rows) const { return (context + rows - 1) / rows; }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t all_tiles(int rows) const {
    return std::int64_t{sequences} * heads * tiles(rows);
  }
};

/// Tile `tile` of one head of one sequence.
struct HeadTile {
  int sequence, head, tile;

  ZEROTH_DEVICE HeadTile(Heads const& h, std::int64_t index, int tiles) {
    std::int64_t const pair = index / tiles;
    sequence = static_cast<int>(pair / h.heads);
    head = static_cast<int>(pair % h.heads);
    tile = static_cast<int>(index % tiles);
  }
  /// Offset of the head's channels of the token at `position`, in rows of `row_channels`.
  [[nodiscard]] ZEROTH_DEVICE std::int64_t at(Heads const& h, std::int64_t position, std::int64_t row_channels) const {
    return (std::int64_t{sequence} * h.context + position) * row_channels + std::int64_t{head} * h.width;
  }
  /// Offset of the head's number of the token, in rows with one number per head.
  [[nodiscard]] ZEROTH_DEVICE std::int64_t pair(Heads const& h, std::int64_t position) const {
    return (std::int64_t{sequence} * h.context + position) * h.heads + head;
  }
};

/// Calls `f(tile)` for the block's tiles of `rows` rows, those with the most work first: the last tiles of queries see
/// the most keys, and the first tiles of keys are seen by the most queries.
template <class Block, class F>
ZEROTH_DEVICE inline void each_query_tile(Block const& block, Heads const& h, int rows, F const& f) {
  for (std::int64_t i = block.index(); i < h.all_tiles(rows); i += block.count()) {
    auto tile = HeadTile{h, i, h.tiles(rows)};
    tile.tile = h.tiles(rows) - 1 - tile.tile;
    f(tile);
  }
}
template <class Block, class F>
ZEROTH_DEVICE inline void each_key_tile(Block const& block, Heads const& h, int rows, F const& f) {
  for (std::int64_t i = block.index(); i < h.all_tiles(rows); i += block.count()) {
    f(HeadTile{h, i, h.tiles(rows)});
  }
}

/// The inputs of both halves of backward.
template <Element T>
struct AttentionGiven {
  T const *qkv, *dy;
  float const *log_sums, *along;
  Heads heads;
  float scale;
};

}  // namespace gpt::gpu
