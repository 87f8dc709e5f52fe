// SPDX-License-Identifier: Apache-2.0
/// Tiles for attention on tensor cores. Each warp of a block holds 16 rows of a head in registers. All warps iterate
/// over the other rows of the head tile by tile in shared memory, where the next tile is fetched during work on the
/// current one. Scores never leave the registers (FlashAttention-2, Dao 2023, section 3).
#pragma once
#include <cmath>
#include <numbers>

#include "cuda/warp.hpp"
#include "gpu/kernels/tile_visits.hpp"

namespace gpt::gpu {

using zeroth::cuda::column_of_pair;
using zeroth::cuda::fragment_pairs;
using zeroth::cuda::fragment_side;
using zeroth::cuda::FragmentA;
using zeroth::cuda::FragmentB;
using zeroth::cuda::FragmentC;
using zeroth::cuda::PerLane;
using zeroth::cuda::PerWarp;
using zeroth::cuda::row_of_pair;

/// Tiles for heads of at most `most_width` channels, in fragments of 16. The width of heads is a multiple of 8
/// channels, and their rows are aligned to 16 bytes.
template <int most_width>
struct TensorTiles {
  static constexpr int fragments = most_width / fragment_side;
  /// Row stride of a tile in shared memory, so that eight rows loaded at a time use different banks.
  static constexpr int stride = most_width + 8;
  /// Rows of a tile: two operands with two tiles each fit into 48 KiB.
  static constexpr int rows = most_width <= 64 ? 64 : 32;
};

/// The fragments of a warp's rows.
template <class Fragment, int most_width, class Warp>
using RowFragments = PerLane<Fragment, Warp>[TensorTiles<most_width>::fragments];

/// The rows of one head and one sequence in a matrix of tokens.
template <class T>
struct HeadRows {
  T* first;
  int stride;  // from row to row
  int count, width;

  ZEROTH_DEVICE HeadRows(Heads const& h, HeadTile const& tile, T* matrix, std::int64_t row_channels)
      : first{matrix + tile.at(h, 0, row_channels)},
        stride{static_cast<int>(row_channels)},
        count{h.context},
        width{h.width} {}
  /// The rows `channels` to the right of `other`.
  ZEROTH_DEVICE HeadRows(HeadRows const& other, std::int64_t channels)
      : first{other.first + channels}, stride{other.stride}, count{other.count}, width{other.width} {}
  [[nodiscard]] ZEROTH_DEVICE bool has(int row, int channel) const { return row < count && channel < width; }
  [[nodiscard]] ZEROTH_DEVICE T* at(int row, int channel) const { return first + std::int64_t{row} * stride + channel; }
};

/// A matrix of queries, keys and values, or their gradients: [tokens, 3 * channels].
template <class T>
struct QkvRows {
  HeadRows<T> q, k, v;

  ZEROTH_DEVICE QkvRows(Heads const& h, HeadTile const& tile, T* qkv)
      : q{h, tile, qkv, 3 * h.channels()}, k{q, h.channels()}, v{q, 2 * h.channels()} {}
};

/// Iterates over visits: `fetch(thread, copy, row, side)` starts to fetch the tile at `row` into side 0 or 1 of shared
/// memory, and `take(warp, visit, side)` works on it while the next one is being fetched. `start(warp)` is called
/// before the first. On return warps may still read the last tile: another phase must come before the next fetch.
template <class Visits, class Block, class Fetch, class Start, class Take>
ZEROTH_DEVICE inline void go_through(Block& block, Visits const& visits, Fetch const& fetch, Start const& start,
                                     Take const& take) {
  using Warp = typename Block::Warp;
  constexpr int step = Visits::step;
  block.fetch([&](int thread, auto const& copy) {
    fetch(thread, copy, visits.at(visits.begin).row, visits.side(visits.begin));
  });
  block.open_warps([&](Warp& warp) { start(warp); });
  for (int i = visits.begin; i < visits.end; i += step) {
    int const side = visits.side(i);
    block.await_fetches();  // also waits until all warps are done with the other side
    if (i + step < visits.end) {
      block.fetch([&](int thread, auto const& copy) { fetch(thread, copy, visits.at(i + step).row, 1 - side); });
    }
    block.open_warps([&](Warp& warp) { take(warp, visits.at(i), side); });
  }
}

/// Starts to fetch rows from `begin` on into a tile, with zeros for missing rows.
template <int threads, int most_width, class Element, class Copy>
ZEROTH_DEVICE inline void fetch_tile(int thread, Copy const& copy, HeadRows<Element const> const& rows, int begin,
                                     Element (*to)[TensorTiles<most_width>::stride]) {
  constexpr int pack = zeroth::cuda::pack_count<Element>;
  constexpr int packs = most_width / pack;
  static_assert(threads % packs == 0 && TensorTiles<most_width>::rows * packs % threads == 0);
  using Pack = zeroth::cuda::Pack<Element, pack>;
  constexpr int step = threads / packs;  // rows fetched at a time
  int const first = thread / packs;
  int const d = thread % packs * pack;
  // Addresses past the last row are not dereferenced.
  Element const* from = rows.at(begin + first, d);
  ZEROTH_UNROLL
  for (int k = 0; k < TensorTiles<most_width>::rows / step; ++k, from += std::int64_t{step} * rows.stride) {
    int const row = first + k * step;
    copy(reinterpret_cast<Pack*>(&to[row][d]), reinterpret_cast<Pack const*>(from), rows.has(begin + row, d));
  }
}

/// Keys and values of the current tile and of the next one.
template <Element T, int most_width>
struct KeyTiles {
  using Tiles = TensorTiles<most_width>;
  using Tile = T[Tiles::rows][Tiles::stride];
  alignas(16) Tile k[2], v[2];

  /// Iterates over visits to keys, like go_through(): calls `start(warp)`, then `take(warp, visit, k, v)`.
  template <int threads, class Visits, class Block, class Start, class Take>
  ZEROTH_DEVICE void visit(Block& block, QkvRows<T const> const& in, Visits const& visits, Start const& start,
                           Take const& take) {
    go_through(
        block, visits,
        [&](int thread, auto const& copy, int key, int side) {
          fetch_tile<threads, most_width>(thread, copy, in.k, key, k[side]);
          fetch_tile<threads, most_width>(thread, copy, in.v, key, v[side]);
        },
        start, [&](auto& warp, auto const& visit, int side) { take(warp, visit, k[side], v[side]); });
  }
};

/// Calls `f(k, pair, address)` for each pair of fragment k that this lane has of the 16 rows from `begin` on.
template <int most_width, class T, class F>
ZEROTH_DEVICE inline void each_pair(int lane, HeadRows<T> const& rows, int begin, F const& f) {
  ZEROTH_UNROLL
  for (int r = 0; r < 2; ++r) {
    int const row = begin + row_of_pair(lane, r);
    if (row >= rows.count) {
      return;
    }
    T* const first = rows.at(row, 0);
    ZEROTH_UNROLL
    for (int k = 0; k < TensorTiles<most_width>::fragments; ++k) {
      ZEROTH_UNROLL
      for (int pair = r; pair < fragment_pairs; pair += 2) {
        int const d = k * fragment_side + column_of_pair(lane, pair);
        if (d < rows.width) {
          f(k, pair, first + d);
        }
      }
    }
  }
}

/// Loads a warp's rows, the 16 from `begin` on, as left factors.
template <int most_width, class T, class Warp>
ZEROTH_DEVICE inline void load_rows(Warp& warp, HeadRows<T const> const& rows, int begin,
                                    RowFragments<FragmentA<T>, most_width, Warp>& to) {
  warp.lanes([&](int lane) {
    ZEROTH_UNROLL
    for (auto& fragment : to) {
      fragment[lane] = {};
    }
    each_pair<most_width>(lane, rows, begin, [&](int k, int pair, T const* from) {
      to[k][lane].pairs[pair] = std::bit_cast<std::uint32_t>(zeroth::cuda::load<2>(from));
    });
  });
}

/// Multiplies the sums of a warp's rows by `factor(lane, r)`, with r as in each_element(), rounds and stores them.
template <int most_width, class T, class Warp, class Factor>
ZEROTH_DEVICE inline void store_rows(Warp& warp, RowFragments<FragmentC, most_width, Warp>& sums, Factor const& factor,
                                     HeadRows<T> const& rows, int begin) {
  warp.lanes([&](int lane) {
    each_pair<most_width>(lane, rows, begin, [&](int k, int pair, T* to) {
      float const(&values)[2] = sums[k][lane].pairs[pair];
      float const by = factor(lane, pair % 2);
      auto const rounded = zeroth::cuda::pair_of<T>(values[0] * by, values[1] * by);
      zeroth::cuda::store(to, std::bit_cast<zeroth::cuda::Pack<T, 2>>(rounded));
    });
  });
}

template <int count, class Warp>
ZEROTH_DEVICE inline void clear(Warp& warp, PerLane<FragmentC, Warp> (&sums)[count]) {
  warp.lanes([&](int lane) {
    ZEROTH_UNROLL
    for (auto& fragment : sums) {
      fragment[lane] = {};
    }
  });
}

/// sums = the warp's rows times those of 16 rows of a tile.
template <int most_width, Element T, class Warp>
ZEROTH_DEVICE inline void multiply_rows(Warp& warp, RowFragments<FragmentA<T>, most_width, Warp> const& rows,
                                        T const (*tile)[TensorTiles<most_width>::stride],
                                        PerLane<FragmentC, Warp>& sums) {
  warp.lanes([&](int lane) { sums[lane] = {}; });
  ZEROTH_UNROLL
  for (int d = 0; d < TensorTiles<most_width>::fragments; ++d) {
    PerLane<FragmentB<T>, Warp> others;
    load_fragment_transposed(warp, others, &tile[0][d * fragment_side], TensorTiles<most_width>::stride);
    warp.multiply_add(sums, rows[d], others);
  }
}

/// sums += weights times 16 rows of a tile.
template <int most_width, Element T, class Warp>
ZEROTH_DEVICE inline void add_weighted_rows(Warp& warp, PerLane<FragmentA<T>, Warp> const& weights,
                                            T const (*tile)[TensorTiles<most_width>::stride],
                                            RowFragments<FragmentC, most_width, Warp>& sums) {
  ZEROTH_UNROLL
  for (int d = 0; d < TensorTiles<most_width>::fragments; ++d) {
    PerLane<FragmentB<T>, Warp> rows;
    load_fragment(warp, rows, &tile[0][d * fragment_side], TensorTiles<most_width>::stride);
    warp.multiply_add(sums[d], weights, rows);
  }
}

/// Calls `f(r, column, value)` for a lane's elements of a fragment of sums: r is 0 in the upper of the lane's two rows,
/// row_of_pair(lane, 0), and 1 in the lower.
template <class F>
ZEROTH_DEVICE inline void each_element(FragmentC& sums, int lane, F const& f) {
  ZEROTH_UNROLL
  for (int pair = 0; pair < fragment_pairs; ++pair) {
    ZEROTH_UNROLL
    for (int k = 0; k < 2; ++k) {
      f(pair % 2, column_of_pair(lane, pair) + k, sums.pairs[pair][k]);
    }
  }
}

/// 2^x, to about 2 units in the last place; subnormal results may be 0 (PTX: ex2.approx.ftz).
[[nodiscard]] ZEROTH_DEVICE inline float exp2_of(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return std::exp2(x);
#endif
}
inline constexpr float log2_of_e = std::numbers::log2e_v<float>;

}  // namespace gpt::gpu
