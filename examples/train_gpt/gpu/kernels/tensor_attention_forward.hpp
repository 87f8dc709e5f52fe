// SPDX-License-Identifier: Apache-2.0
/// Forward of causal self-attention on tensor cores.
#pragma once
#include "gpu/kernels/tensor_tiles.hpp"

namespace gpt::gpu {

/// Computes the results of AttentionForward, with probabilities rounded to T before they are multiplied with the
/// values. A block has a tile of queries, 16 to a warp, and iterates over the keys with an online softmax.
template <Element T, int most_width, class Reads = ReadsAll>
struct TensorAttentionForward {
  using Tiles = TensorTiles<most_width>;
  // With lists a tile has as many queries as common blocks, so that few warps skip a tile of keys.
  static constexpr int warps = Reads::has_lists ? 4 : 8, threads = warps * warp_threads;
  static constexpr int resident_blocks = (most_width <= 64 ? 2 : 1) + (Reads::has_lists ? 1 : 0);
  static constexpr int queries = warps * fragment_side, keys = Tiles::rows;
  static constexpr int own_rows = queries, visited_rows = keys;
  static constexpr int key_fragments = keys / fragment_side;
  using Shared = KeyTiles<T, most_width>;

  T const* qkv;
  Heads heads;
  float scale;
  T* y;
  float* log_sums;
  Reads reads{};

  [[nodiscard]] std::int64_t work() const { return heads.all_tiles(queries); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    each_query_tile(block, heads, queries, [&](HeadTile const& tile) { run(block, shared, tile); });
  }

 private:
  /// A lane has elements of two rows.
  template <class Warp>
  struct Kept {
    RowFragments<FragmentA<T>, most_width, Warp> q;
    RowFragments<FragmentC, most_width, Warp> out;
    PerLane<float, Warp> largest[2], sum[2];  // `sum`: of the lane's own elements
  };

  template <class Block>
  ZEROTH_DEVICE void run(Block& block, Shared& shared, HeadTile const& tile) const {
    using Warp = typename Block::Warp;
    QkvRows<T const> const in{heads, tile, qkv};
    int const first = tile.tile * queries;
    int const end = first + queries < in.q.count ? first + queries : in.q.count;
    auto const row_of = [&](Warp const& warp) { return first + warp.index() * fragment_side; };
    PerWarp<Kept<Warp>, Block> kept;
    shared.template visit<threads>(
        block, in, reads.template visits<queries, keys>(heads, tile, 0, end),
        [&](Warp& warp) { start(warp, kept[warp], in.q, row_of(warp)); },
        [&](Warp& warp, auto const& visit, auto const& k, auto const& v) {
          auto const cells = visit.cells_of(warp.index(), row_of(warp) - visit.row);
          if (visit.row < row_of(warp) + fragment_side && cells.any()) {
            take(warp, kept[warp], k, v, cells);
          }
        });
    block.warps([&](Warp& warp) { finish(warp, kept[warp], tile, row_of(warp)); });
  }

  template <class Warp>
  ZEROTH_DEVICE static void start(Warp& warp, Kept<Warp>& mine, HeadRows<T const> const& q, int first_row) {
    load_rows<most_width>(warp, q, first_row, mine.q);
    clear(warp, mine.out);
    warp.lanes([&](int lane) {
      ZEROTH_UNROLL
      for (int r = 0; r < 2; ++r) {
        mine.largest[r][lane] = -INFINITY;
        mine.sum[r][lane] = 0;
      }
    });
  }

  /// Processes a tile of keys and values. The warp's row r sees the keys in `cells` up to `cells.apart()` + r, at least
  /// one. Rows after the last one are zeros; their mask does not matter.
  template <class Warp, class Cells>
  ZEROTH_DEVICE void take(Warp& warp, Kept<Warp>& mine, T const (*k)[Tiles::stride], T const (*v)[Tiles::stride],
                          Cells const& cells) const {
    PerLane<FragmentC, Warp> scores[key_fragments];
    ZEROTH_UNROLL
    for (int n = 0; n < key_fragments; ++n) {
      multiply_rows<most_width>(warp, mine.q, k + n * fragment_side, scores[n]);
    }
    if (cells.apart() + 1 < keys || !cells.all()) {
      hide_unseen(warp, scores, cells);
    }
    soften(warp, mine, scores);
    ZEROTH_UNROLL
    for (int n = 0; n < key_fragments; ++n) {
      PerLane<FragmentA<T>, Warp> probabilities;
      round_to<T>(warp, scores[n], probabilities);
      add_weighted_rows<most_width>(warp, probabilities, v + n * fragment_side, mine.out);
    }
  }

  template <class Warp, class Cells>
  ZEROTH_DEVICE static void hide_unseen(Warp& warp, PerLane<FragmentC, Warp> (&scores)[key_fragments],
                                        Cells const& cells) {
    warp.lanes([&](int lane) {
      ZEROTH_UNROLL
      for (int n = 0; n < key_fragments; ++n) {
        each_element(scores[n][lane], lane, [&](int r, int column, float& score) {
          bool const seen = n * fragment_side + column <= cells.apart() + row_of_pair(lane, r) && cells.has(n);
          score = seen ? score : -INFINITY;
        });
      }
    });
  }

  /// Turns scores into exponentials relative to the largest score so far, and rescales the earlier sums to it.
  template <class Warp>
  ZEROTH_DEVICE void soften(Warp& warp, Kept<Warp>& mine, PerLane<FragmentC, Warp> (&scores)[key_fragments]) const {
    PerLane<float, Warp> largest[2];
    warp.lanes([&](int lane) {
      ZEROTH_UNROLL
      for (int r = 0; r < 2; ++r) {
        largest[r][lane] = mine.largest[r][lane];
      }
      ZEROTH_UNROLL
      for (auto& fragment : scores) {
        each_element(fragment[lane], lane, [&](int r, int /*column*/, float score) {
          float& so_far = largest[r][lane];
          so_far = Largest{}(score, so_far);
        });
      }
    });
    ZEROTH_UNROLL
    for (auto& row : largest) {
      warp.fold_quads(row, Largest{});
    }
    float const to_log2 = scale * log2_of_e;
    warp.lanes([&](int lane) {
      float shrink[2];
      float base[2];
      ZEROTH_UNROLL
      for (int r = 0; r < 2; ++r) {
        shrink[r] = exp2_of((mine.largest[r][lane] - largest[r][lane]) * to_log2);
        base[r] = largest[r][lane] * to_log2;
        mine.largest[r][lane] = largest[r][lane];
        mine.sum[r][lane] *= shrink[r];
      }
      ZEROTH_UNROLL
      for (auto& fragment : mine.out) {
        each_element(fragment[lane], lane, [&](int r, int /*column*/, float& value) { value *= shrink[r]; });
      }
      ZEROTH_UNROLL
      for (auto& fragment : scores) {
        each_element(fragment[lane], lane, [&](int r, int /*column*/, float& score) {
          score = exp2_of(score * to_log2 - base[r]);
          mine.sum[r][lane] += score;
        });
      }
    });
  }

  template <class Warp>
  ZEROTH_DEVICE void finish(Warp& warp, Kept<Warp>& mine, HeadTile const& tile, int first_row) const {
    ZEROTH_UNROLL
    for (auto& sum : mine.sum) {
      warp.fold_quads(sum, Plus{});
    }
    HeadRows<T> const out{heads, tile, y, heads.channels()};
    store_rows<most_width>(
        warp, mine.out, [&](int lane, int r) { return 1 / mine.sum[r][lane]; }, out, first_row);
    warp.lanes([&](int lane) {
      ZEROTH_UNROLL
      for (int r = 0; r < 2; ++r) {
        int const row = first_row + row_of_pair(lane, r);
        if (lane % 4 == 0 && row < heads.context) {
          log_sums[tile.pair(heads, row)] = mine.largest[r][lane] * scale + std::log(mine.sum[r][lane]);
        }
      }
    });
  }
};

}  // namespace gpt::gpu
