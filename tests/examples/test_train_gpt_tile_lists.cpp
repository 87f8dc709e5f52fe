// SPDX-License-Identifier: Apache-2.0
/// The lists of tiles of train_gpt's GPU kernels, against the bits of the layout.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpu/tile_lists.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {
namespace {

using zeroth::BlockLayout;
using zeroth::SparseAttention;
using zeroth::SparseMode;

constexpr std::int64_t heads = 3;

BlockLayout causal(SparseAttention parameters, std::int64_t context) {
  parameters.attention = zeroth::AttentionDirection::unidirectional;
  return {parameters, heads, context, 3};
}

/// A cell of queries and one of keys.
using Cells = std::vector<std::pair<std::int64_t, std::int64_t>>;

Cells cells_of(BlockLayout const& layout, std::int64_t head) {
  Cells cells;
  for (std::int64_t query = 0; query < layout.context(); query += cell_side) {
    for (std::int64_t key = 0; key <= query; key += cell_side) {
      if (layout.has(head, query / layout.block(), key / layout.block())) {
        cells.emplace_back(query / cell_side, key / cell_side);
      }
    }
  }
  return cells;
}

/// The cells of a packed list, sorted. Tiles have `own` rows and visit tiles of `visited` rows.
Cells cells_of(PackedLists const& packed, std::int64_t head, std::int64_t context, std::int64_t own,
               std::int64_t visited, bool own_are_queries) {
  auto const word = [&](std::int64_t at) { return packed.words[static_cast<std::size_t>(at)]; };
  auto const tiles = (context + own - 1) / own;
  auto const across = visited / cell_side;
  Cells cells;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    auto const at = packed.begins_at + word(head) * (tiles + 1) + tile;
    CHECK(word(at) < word(at + 1));  // kernels rely on a tile to have entries
    std::int64_t before = -1;
    for (auto i = word(at); i < word(at + 1); ++i) {
      std::int64_t const row = word(packed.entries_at + 2 * i);
      auto const bits = static_cast<std::uint32_t>(word(packed.entries_at + 2 * i + 1));
      CHECK((row > before && row % visited == 0 && bits != 0));
      before = row;
      for (std::int64_t bit = 0; bit < 32; ++bit) {
        if ((bits >> bit & 1U) != 0) {
          auto const mine = tile * own / cell_side + bit / across, other = row / cell_side + bit % across;
          cells.emplace_back(own_are_queries ? mine : other, own_are_queries ? other : mine);
        }
      }
    }
  }
  std::ranges::sort(cells);
  return cells;
}

}  // namespace

TEST_CASE("lists of tiles have the cells of the layout, for every kernel") {
  for (auto const& layout :
       {causal({.mode = SparseMode::dense}, 208), causal({.mode = SparseMode::fixed, .block = 16}, 272),
        causal({.mode = SparseMode::fixed,
        .block = 32,
        .different_layout_per_head = true,
        .num_local_blocks = 2,
        .num_different_global_patterns = 2},
               320),
        causal({.mode = SparseMode::variable,
        .block = 48,
        .num_random_blocks = 1,
        .local_window_blocks = {1},
        .global_block_indices = {1}},
               480),
        causal({.mode = SparseMode::bigbird, .block = 16, .different_layout_per_head = true, .num_random_blocks = 2},
               400),
        causal({.mode = SparseMode::bslongformer, .block = 80, .global_block_indices = {1}}, 560),
        causal({.mode = SparseMode::local_sliding_window, .block = 128}, 1024)}) {
    KeyBlocks const blocks{layout, 0, heads};
    for (auto const& [own, visited] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {128, 64}, {128, 32}, {64, 64}, {64, 32}, {32, 32}, {16, 16}}) {
      CAPTURE(layout.context(), layout.block(), own, visited);
      auto const of_queries = pack(blocks, heads, keys_of_queries(blocks, own, visited));
      auto const of_keys = pack(blocks, heads, queries_of_keys(blocks, own, visited));
      for (std::int64_t head = 0; head < heads; ++head) {
        auto const expected = cells_of(layout, head);
        CHECK((cells_of(of_queries, head, layout.context(), own, visited, true) == expected));
        CHECK((cells_of(of_keys, head, layout.context(), own, visited, false) == expected));
      }
    }
  }
}

TEST_CASE("heads with one layout share lists of tiles, and blocks that are no cells are rejected") {
  KeyBlocks const same{causal({.mode = SparseMode::local_sliding_window}, 64), 0, heads};
  auto const lists = keys_of_queries(same, 16, 16);
  CHECK(lists.begins == std::vector<std::int32_t>{0, 1, 3, 5, 7});
  CHECK((lists.entries == std::vector<TileVisit>{{0, 1}, {0, 1}, {16, 1}, {16, 1}, {32, 1}, {32, 1}, {48, 1}}));
  auto const packed = pack(same, heads, lists);
  CHECK(packed.begins_at == 3);
  CHECK(packed.entries_at == 8);
  KeyBlocks const odd{causal({.mode = SparseMode::local_sliding_window, .block = 20}, 60), 0, heads};
  CHECK_THAT(zeroth::testing::thrown<zeroth::ContractError>([&] { return keys_of_queries(odd, 64, 64); }),
             Catch::Contains("blocks that are no whole cells"));
}

}  // namespace gpt::gpu
