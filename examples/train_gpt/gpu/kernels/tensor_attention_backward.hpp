// SPDX-License-Identifier: Apache-2.0
/// Backward of causal self-attention on tensor cores: once for the queries and once for keys and values, as in
/// attention.hpp, so that every gradient has one writer.
#pragma once
#include "gpu/kernels/tensor_tiles.hpp"

namespace gpt::gpu {

/// Turns a lane's scores into probabilities, and their gradients into gradients of the unscaled scores. `sees(r,
/// column)`: whether the query sees the key; `log_sum(r, column)` and `along(r, column)`: those of the query.
template <class Sees, class LogSum, class Along>
ZEROTH_DEVICE inline void differentiate(int lane, FragmentC& scores, FragmentC& gradients, float scale,
                                        Sees const& sees, LogSum const& log_sum, Along const& along) {
  ZEROTH_UNROLL
  for (int pair = 0; pair < fragment_pairs; ++pair) {
    ZEROTH_UNROLL
    for (int k = 0; k < 2; ++k) {
      int const r = pair % 2;
      int const column = column_of_pair(lane, pair) + k;
      float& p = scores.pairs[pair][k];
      float& ds = gradients.pairs[pair][k];
      float const probability = exp2_of(p * (scale * log2_of_e) - log_sum(r, column) * log2_of_e);
      float const slope = ds - along(r, column);
      bool const seen = sees(r, column);
      p = seen ? probability : 0.0F;
      ds = seen ? probability * slope : 0.0F;
    }
  }
}

/// Computes the results of AttentionAlong and AttentionBackwardQueries. A block has a tile of queries, 16 to a warp.
template <Element T, int most_width, class Reads = ReadsAll>
struct TensorAttentionBackwardQueries {
  using Tiles = TensorTiles<most_width>;
  static constexpr int warps = 4, threads = warps * warp_threads;
  static constexpr int resident_blocks = most_width <= 64 ? 3 : 2;
  static constexpr int queries = warps * fragment_side, keys = Tiles::rows;
  static constexpr int own_rows = queries, visited_rows = keys;
  using Shared = KeyTiles<T, most_width>;

  AttentionGiven<T> given;
  T const* y;
  float* along;  // given.along
  T* dqkv;
  Reads reads{};

  [[nodiscard]] std::int64_t work() const { return given.heads.all_tiles(queries); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    each_query_tile(block, given.heads, queries, [&](HeadTile const& tile) { run(block, shared, tile); });
  }

 private:
  /// A lane has elements of two rows.
  template <class Warp>
  struct Kept {
    RowFragments<FragmentA<T>, most_width, Warp> q, dout;
    RowFragments<FragmentC, most_width, Warp> dq;
    PerLane<float, Warp> log_sum[2], along[2];
  };

  template <class Block>
  ZEROTH_DEVICE void run(Block& block, Shared& shared, HeadTile const& tile) const {
    using Warp = typename Block::Warp;
    auto const& h = given.heads;
    QkvRows<T const> const in{h, tile, given.qkv};
    int const first = tile.tile * queries;
    int const end = first + queries < in.q.count ? first + queries : in.q.count;
    auto const row_of = [&](Warp const& warp) { return first + warp.index() * fragment_side; };
    PerWarp<Kept<Warp>, Block> kept;
    shared.template visit<threads>(
        block, in, reads.template visits<queries, keys>(h, tile, 0, end),
        [&](Warp& warp) { start(warp, kept[warp], in.q, tile, row_of(warp)); },
        [&](Warp& warp, auto const& visit, auto const& k, auto const& v) {
          int const rows = Reads::has_lists ? fragment_side : in.q.count - row_of(warp);  // cells are whole
          take(warp, kept[warp], k, v, visit.cells_of(warp.index(), row_of(warp) - visit.row), rows);
        });
    block.warps([&](Warp& warp) {
      auto const scale = [&](int /*lane*/, int /*r*/) { return given.scale; };
      store_rows<most_width>(warp, kept[warp].dq, scale, QkvRows<T>{h, tile, dqkv}.q, row_of(warp));
    });
  }

  template <class Warp>
  ZEROTH_DEVICE void start(Warp& warp, Kept<Warp>& mine, HeadRows<T const> const& q, HeadTile const& tile,
                           int first_row) const {
    auto const& h = given.heads;
    HeadRows<T const> const out{h, tile, y, h.channels()};
    HeadRows<T const> const dout{h, tile, given.dy, h.channels()};
    load_rows<most_width>(warp, q, first_row, mine.q);
    load_rows<most_width>(warp, dout, first_row, mine.dout);
    clear(warp, mine.dq);
    warp.lanes([&](int lane) {
      mine.along[0][lane] = mine.along[1][lane] = 0;
      each_pair<most_width>(lane, out, first_row, [&](int k, int pair, T const* at) {
        auto const a = zeroth::cuda::load<2>(at);
        auto const b = std::bit_cast<zeroth::cuda::Pack<T, 2>>(mine.dout[k][lane].pairs[pair]);
        mine.along[pair % 2][lane] += float_of(a.at[0]) * float_of(b.at[0]) + float_of(a.at[1]) * float_of(b.at[1]);
      });
    });
    ZEROTH_UNROLL
    for (auto& row : mine.along) {
      warp.fold_quads(row, Plus{});
    }
    warp.lanes([&](int lane) {
      ZEROTH_UNROLL
      for (int r = 0; r < 2; ++r) {
        int const row = first_row + row_of_pair(lane, r);
        bool const there = row < q.count;
        mine.log_sum[r][lane] = there ? given.log_sums[tile.pair(h, row)] : 0.0F;
        if (there && lane % 4 == 0) {
          along[tile.pair(h, row)] = mine.along[r][lane];
        }
      }
    });
  }

  /// Processes a tile of keys and values. The warp's row r sees the keys in `cells` up to `cells.apart()` + r; it has
  /// `rows` rows.
  template <class Warp, class Cells>
  ZEROTH_DEVICE void take(Warp& warp, Kept<Warp>& mine, T const (*k)[Tiles::stride], T const (*v)[Tiles::stride],
                          Cells const& cells, int rows) const {
    ZEROTH_UNROLL_NOT
    for (int n = 0; n < keys; n += fragment_side) {
      if (n >= cells.apart() + fragment_side) {
        return;
      }
      if (!cells.has(n / fragment_side)) {
        continue;
      }
      PerLane<FragmentC, Warp> scores;
      PerLane<FragmentC, Warp> gradients;
      multiply_rows<most_width>(warp, mine.q, k + n, scores);
      multiply_rows<most_width>(warp, mine.dout, v + n, gradients);
      warp.lanes([&](int lane) {
        differentiate(
            lane, scores[lane], gradients[lane], given.scale,
            [&](int r, int column) {
              return n + column <= cells.apart() + row_of_pair(lane, r) && row_of_pair(lane, r) < rows;
            },
            [&](int r, int /*column*/) { return mine.log_sum[r][lane]; },
            [&](int r, int /*column*/) { return mine.along[r][lane]; });
      });
      PerLane<FragmentA<T>, Warp> weights;
      round_to<T>(warp, gradients, weights);
      add_weighted_rows<most_width>(warp, weights, k + n, mine.dq);
    }
  }
};

/// Computes the results of AttentionBackwardKeys. A block has a tile of keys and values, 16 to a warp.
template <Element T, int most_width, class Reads = ReadsAll>
struct TensorAttentionBackwardKeys {
  using Tiles = TensorTiles<most_width>;
  static constexpr int warps = 4, threads = warps * warp_threads;
  static constexpr int resident_blocks = most_width <= 64 ? 3 : 2;
  static constexpr int keys = warps * fragment_side, queries = Tiles::rows;
  static constexpr int own_rows = keys, visited_rows = queries;
  struct Shared {
    alignas(16) T q[2][queries][Tiles::stride], dout[2][queries][Tiles::stride];
    float log_sums[2][queries], along[2][queries];
  };

  AttentionGiven<T> given;
  T* dqkv;
  Reads reads{};

  [[nodiscard]] std::int64_t work() const { return given.heads.all_tiles(keys); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    each_key_tile(block, given.heads, keys, [&](HeadTile const& tile) { run(block, shared, tile); });
  }

 private:
  template <class Warp>
  struct Kept {
    RowFragments<FragmentA<T>, most_width, Warp> k, v;
    RowFragments<FragmentC, most_width, Warp> dk, dv;
  };

  template <class Block>
  ZEROTH_DEVICE void run(Block& block, Shared& shared, HeadTile const& tile) const {
    using Warp = typename Block::Warp;
    auto const& h = given.heads;
    QkvRows<T const> const in{h, tile, given.qkv};
    HeadRows<T const> const dout{h, tile, given.dy, h.channels()};
    int const first = tile.tile * keys;
    auto const row_of = [&](Warp const& warp) { return first + warp.index() * fragment_side; };
    PerWarp<Kept<Warp>, Block> kept;
    go_through(
        block, reads.template visits<keys, queries>(h, tile, first, in.q.count),
        [&](int thread, auto const& copy, int query, int side) {
          fetch_tile<threads, most_width>(thread, copy, in.q, query, shared.q[side]);
          fetch_tile<threads, most_width>(thread, copy, dout, query, shared.dout[side]);
          fetch_numbers(thread, copy, tile, query, shared, side);
        },
        [&](Warp& warp) {
          auto& mine = kept[warp];
          load_rows<most_width>(warp, in.k, row_of(warp), mine.k);
          load_rows<most_width>(warp, in.v, row_of(warp), mine.v);
          clear(warp, mine.dk);
          clear(warp, mine.dv);
        },
        [&](Warp& warp, auto const& visit, int side) {
          int const rows = Reads::has_lists ? queries : in.q.count - visit.row;  // cells are whole
          take(warp, kept[warp], shared, side, visit.cells_of(warp.index(), visit.row - row_of(warp)), rows);
        });
    block.warps([&](Warp& warp) {
      QkvRows<T> const out{h, tile, dqkv};
      auto const scale = [&](int /*lane*/, int /*r*/) { return given.scale; };
      auto const one = [](int /*lane*/, int /*r*/) { return 1.0F; };
      store_rows<most_width>(warp, kept[warp].dk, scale, out.k, row_of(warp));
      store_rows<most_width>(warp, kept[warp].dv, one, out.v, row_of(warp));
    });
  }

  template <class Copy>
  ZEROTH_DEVICE void fetch_numbers(int thread, Copy const& copy, HeadTile const& tile, int query, Shared& shared,
                                   int side) const {
    static_assert(queries <= threads);
    if (thread < queries) {
      bool const there = query + thread < given.heads.context;
      std::int64_t const pair = tile.pair(given.heads, query + thread);  // not dereferenced past the end
      copy(&shared.log_sums[side][thread], given.log_sums + pair, there);
      copy(&shared.along[side][thread], given.along + pair, there);
    }
  }

  /// Processes a tile of `rows` queries, with scores transposed: a row for each key. Query c sees keys up to row
  /// `cells.apart()` + c if it is in `cells`.
  template <class Warp, class Cells>
  ZEROTH_DEVICE void take(Warp& warp, Kept<Warp>& mine, Shared const& shared, int side, Cells const& cells,
                          int rows) const {
    ZEROTH_UNROLL_NOT
    for (int n = 0; n < queries; n += fragment_side) {
      if (cells.apart() + n + fragment_side <= 0 || n >= rows || !cells.has(n / fragment_side)) {
        continue;
      }
      auto const* const q = shared.q[side] + n;
      auto const* const dout = shared.dout[side] + n;
      PerLane<FragmentC, Warp> scores;
      PerLane<FragmentC, Warp> gradients;
      multiply_rows<most_width>(warp, mine.k, q, scores);
      multiply_rows<most_width>(warp, mine.v, dout, gradients);
      warp.lanes([&](int lane) {
        differentiate(
            lane, scores[lane], gradients[lane], given.scale,
            [&](int r, int column) { return row_of_pair(lane, r) <= cells.apart() + n + column && n + column < rows; },
            [&](int /*r*/, int column) { return shared.log_sums[side][n + column]; },
            [&](int /*r*/, int column) { return shared.along[side][n + column]; });
      });
      PerLane<FragmentA<T>, Warp> weights;
      round_to<T>(warp, scores, weights);
      add_weighted_rows<most_width>(warp, weights, dout, mine.dv);
      round_to<T>(warp, gradients, weights);
      add_weighted_rows<most_width>(warp, weights, q, mine.dk);
    }
  }
};

}  // namespace gpt::gpu
