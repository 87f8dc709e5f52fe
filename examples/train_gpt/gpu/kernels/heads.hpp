/// What attention's kernels work on.
#pragma once
#include "gpu/kernels/cross_entropy.hpp"

namespace gpt::gpu {

/// What attention works on: tokens in sequences of `context`, heads of `width` channels.
struct Heads {
  std::int64_t sequences, context, heads, width;
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t channels() const { return heads * width; }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles(int rows) const { return (context + rows - 1) / rows; }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t all_tiles(int rows) const { return sequences * heads * tiles(rows); }
};

/// Tile `tile` of one head of one sequence.
struct HeadTile {
  std::int64_t sequence, head, tile;

  ZEROTH_DEVICE HeadTile(Heads const& h, std::int64_t index, std::int64_t tiles)
      : sequence{index / (h.heads * tiles)}, head{index / tiles % h.heads}, tile{index % tiles} {}
  /// Where the head's channels of the token at `position` begin, in rows of `row_channels`.
  [[nodiscard]] ZEROTH_DEVICE std::int64_t at(Heads const& h, std::int64_t position, std::int64_t row_channels) const {
    return (sequence * h.context + position) * row_channels + head * h.width;
  }
  /// Where the head's number of the token is, in rows of one for each head.
  [[nodiscard]] ZEROTH_DEVICE std::int64_t pair(Heads const& h, std::int64_t position) const {
    return (sequence * h.context + position) * h.heads + head;
  }
};

/// Calls `f(tile)` for the block's tiles of `rows` rows. The last tiles of queries see the most keys, and the first
/// tiles of keys are seen by the most queries: those with the most work are to come first.
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

/// What both halves of backward read.
template <Element T>
struct AttentionGiven {
  T const *qkv, *dy;
  float const *log_sums, *along;
  Heads heads;
  float scale;
};

}  // namespace gpt::gpu
