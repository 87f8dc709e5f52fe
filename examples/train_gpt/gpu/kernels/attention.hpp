// SPDX-License-Identifier: Apache-2.0
/// Causal self-attention in tiles: scores live in shared memory, a tile of them at a time. Forward keeps the logarithm
/// of each row's softmax denominator; backward computes the scores again, once for the queries and once for keys and
/// values, so that every gradient has one writer. In fp32, and for heads that tensor cores do not take
/// (tensor_tiles.hpp).
#pragma once
#include <cmath>

#include "cuda/packs.hpp"
#include "gpu/kernels/tile_visits.hpp"

namespace gpt::gpu {

/// The division of tiles of `rows` x `columns` among a block of 256 threads: 16 x 16 threads with a few rows and
/// columns each. Matrices in shared memory have rows of `stride` floats, so that simultaneous reads use different
/// banks.
template <int most_width>
struct AttentionTiles {
  static constexpr int threads = 256, side = 16;
  static constexpr int stride = most_width + 4;
  static constexpr int width_steps = most_width / side;
  [[nodiscard]] ZEROTH_HOST_DEVICE static constexpr int row_of(int thread, int rows, int r) {
    return thread / side * (rows / side) + r;
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE static constexpr int column_of(int thread, int j) {
    return thread % side + j * side;
  }
};

/// Copies rows [first, first + rows) of one head into shared memory, with zeros for missing rows.
template <int most_width, Element T>
ZEROTH_DEVICE inline void load_tile(int thread, Heads const& h, HeadTile const& at, T const* from,
                                    std::int64_t row_channels, std::int64_t first, int rows,
                                    float (*to)[AttentionTiles<most_width>::stride]) {
  for (int i = thread; i < rows * most_width; i += AttentionTiles<most_width>::threads) {
    int const row = i / most_width;
    int const d = i % most_width;
    bool const there = first + row < h.context && d < h.width;
    to[row][d] = there ? float_of(from[at.at(h, first + row, row_channels) + d]) : 0.0F;
  }
}

/// Products of rows of `a` and rows of `b`: values[r][j] for this thread's rows and columns.
template <int most_width, int rows, int columns>
ZEROTH_DEVICE inline void multiply_rows(int thread, float const (*a)[AttentionTiles<most_width>::stride],
                                        float const (*b)[AttentionTiles<most_width>::stride],
                                        float (&values)[rows / 16][columns / 16]) {
  using Tiles = AttentionTiles<most_width>;
  constexpr int own_rows = rows / Tiles::side, own_columns = columns / Tiles::side;
  for (int r = 0; r < own_rows; ++r) {
    for (int j = 0; j < own_columns; ++j) {
      values[r][j] = 0;
    }
  }
  for (int d = 0; d < most_width; d += 4) {
    zeroth::cuda::Pack<float, 4> left[own_rows], right[own_columns];
    for (int r = 0; r < own_rows; ++r) {
      left[r] = zeroth::cuda::load<4>(&a[Tiles::row_of(thread, rows, r)][d]);
    }
    for (int j = 0; j < own_columns; ++j) {
      right[j] = zeroth::cuda::load<4>(&b[Tiles::column_of(thread, j)][d]);
    }
    for (int r = 0; r < own_rows; ++r) {
      for (int j = 0; j < own_columns; ++j) {
        for (int k = 0; k < 4; ++k) {
          values[r][j] += left[r].at[k] * right[j].at[k];
        }
      }
    }
  }
}

/// sums[r][j] += for this thread's row r and channel j: the sum over k < count of weight(row, k) * b[k][channel].
template <int most_width, int rows, class Weight>
ZEROTH_DEVICE inline void add_weighted_rows(int thread, int count, Weight const& weight,
                                            float const (*b)[AttentionTiles<most_width>::stride],
                                            float (&sums)[rows / 16][most_width / 16]) {
  using Tiles = AttentionTiles<most_width>;
  constexpr int own_rows = rows / Tiles::side, own_columns = Tiles::width_steps;
  for (int k = 0; k < count; ++k) {
    float value[own_columns];
    for (int j = 0; j < own_columns; ++j) {
      value[j] = b[k][Tiles::column_of(thread, j)];
    }
    for (int r = 0; r < own_rows; ++r) {
      float const w = weight(Tiles::row_of(thread, rows, r), k);
      for (int j = 0; j < own_columns; ++j) {
        sums[r][j] += w * value[j];
      }
    }
  }
}

/// A thread's sums for its rows and channels, over all tiles.
template <int most_width, int rows>
struct HeadSums {
  static constexpr int own_rows = rows / 16, own_columns = most_width / 16;
  float at[own_rows][own_columns];

  ZEROTH_DEVICE void clear() {
    for (auto& row : at) {
      for (float& value : row) {
        value = 0;
      }
    }
  }
  template <class Factor>
  ZEROTH_DEVICE void multiply(int thread, Factor const& factor_of) {
    for (int r = 0; r < own_rows; ++r) {
      float const factor = factor_of(AttentionTiles<most_width>::row_of(thread, rows, r));
      for (float& value : at[r]) {
        value *= factor;
      }
    }
  }
  /// Rounds the sums and stores them as rows [first, first + rows) of one head.
  template <Element T>
  ZEROTH_DEVICE void store(int thread, Heads const& h, HeadTile const& tile, std::int64_t first,
                           std::int64_t row_channels, T* to) const {
    using Tiles = AttentionTiles<most_width>;
    for (int r = 0; r < own_rows; ++r) {
      std::int64_t const position = first + Tiles::row_of(thread, rows, r);
      for (int j = 0; j < own_columns; ++j) {
        int const d = Tiles::column_of(thread, j);
        if (position < h.context && d < h.width) {
          to[tile.at(h, position, row_channels) + d] = from_float<T>(at[r][j]);
        }
      }
    }
  }
};

/// qkv: [tokens, 3 * channels], queries then keys then values. y: [tokens, channels]. log_sums: [tokens, heads].
/// A block has a tile of queries and iterates over the keys with an online softmax (Milakov and Gimelshein 2018, as in
/// FlashAttention, Dao et al. 2022).
template <Element T, int most_width, class Reads = ReadsAll>
struct AttentionForward {
  using Tiles = AttentionTiles<most_width>;
  static constexpr int threads = Tiles::threads;
  static constexpr int rows = most_width <= 64 ? 64 : 32, keys = 32;
  static constexpr int own_rows = rows, visited_rows = keys;
  static constexpr int parts = threads / rows, keys_of_a_part = keys / parts;
  struct Shared {
    alignas(16) float q[rows][Tiles::stride], kv[keys][Tiles::stride];
    float p[rows][keys + 1];
    float part_largest[rows][parts], part_sum[rows][parts];
    float largest[rows], sum[rows];  // of the previous tiles
  };

  T const* qkv;
  Heads heads;
  float scale;
  T* y;
  float* log_sums;
  Reads reads{};

  [[nodiscard]] std::int64_t work() const { return heads.all_tiles(rows); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    each_query_tile(block, heads, rows, [&](HeadTile const& tile) { run(block, shared, tile); });
  }

 private:
  template <class Block>
  ZEROTH_DEVICE void run(Block& block, Shared& shared, HeadTile const& tile) const {
    std::int64_t const channels = heads.channels();
    std::int64_t const first_row = std::int64_t{tile.tile} * rows;
    std::int64_t const end_row = first_row + rows < heads.context ? first_row + rows : heads.context;
    PerThread<HeadSums<most_width, rows>, Block> out;
    block.phase([&](int thread) {
      load_tile<most_width>(thread, heads, tile, qkv, 3 * channels, first_row, rows, shared.q);
      out[thread].clear();
      start(shared, thread);
    });
    auto const visits = reads.template visits<rows, keys>(heads, tile, std::int64_t{0}, end_row);
    for (auto i = visits.begin; i < visits.end; i += visits.step) {
      auto const visit = visits.at(i);
      std::int64_t const key = visit.row;
      block.phase([&](int thread) {
        take_tile(shared, thread, i == visits.begin);
        load_tile<most_width>(thread, heads, tile, qkv + channels, 3 * channels, key, keys, shared.kv);
      });
      block.phase([&](int thread) { score(shared, thread, first_row, visit); });
      block.phase([&](int thread) {
        int const row = thread / parts;
        float largest = -INFINITY;
        for (int k = 0; k < keys_of_a_part; ++k) {
          largest = Largest{}(largest, shared.p[row][thread % parts + k * parts]);
        }
        shared.part_largest[row][thread % parts] = largest;
        load_tile<most_width>(thread, heads, tile, qkv + 2 * channels, 3 * channels, key, keys, shared.kv);
      });
      block.phase([&](int thread) {
        int const row = thread / parts;
        float const largest = finite_largest<Reads>(largest_so_far(shared, row));
        float sum = 0;
        for (int k = 0; k < keys_of_a_part; ++k) {
          float& p = shared.p[row][thread % parts + k * parts];
          p = std::exp(p - largest);
          sum += p;
        }
        shared.part_sum[row][thread % parts] = sum;
      });
      block.phase([&](int thread) {
        out[thread].multiply(thread, [&](int row) {
          return std::exp(shared.largest[row] - finite_largest<Reads>(largest_so_far(shared, row)));
        });
        add_weighted_rows<most_width, rows>(
            thread, keys, [&](int row, int k) { return shared.p[row][k]; }, shared.kv, out[thread].at);
      });
    }
    block.phase([&](int thread) { take_tile(shared, thread, false); });
    block.phase([&](int thread) {
      out[thread].multiply(thread, [&](int row) { return 1 / shared.sum[row]; });
      out[thread].store(thread, heads, tile, first_row, channels, y);
      if (thread < rows && first_row + thread < heads.context) {
        log_sums[tile.pair(heads, first_row + thread)] = shared.largest[thread] + std::log(shared.sum[thread]);
      }
    });
  }

  ZEROTH_DEVICE static void start(Shared& shared, int thread) {
    if (thread < rows) {
      shared.largest[thread] = -INFINITY;
      shared.sum[thread] = 0;
      for (int part = 0; part < parts; ++part) {
        shared.part_largest[thread][part] = -INFINITY;
        shared.part_sum[thread][part] = 0;
      }
    }
  }

  /// Scores of this thread's queries and keys; keys that a query does not see get -infinity. Rows after the last one
  /// are zeros with the mask of the last one.
  template <class Visit>
  ZEROTH_DEVICE void score(Shared& shared, int thread, std::int64_t first_row, Visit const& visit) const {
    std::int64_t const key = visit.row;
    float values[rows / Tiles::side][keys / Tiles::side];
    multiply_rows<most_width, rows, keys>(thread, shared.q, shared.kv, values);
    for (int r = 0; r < rows / Tiles::side; ++r) {
      int const row = Tiles::row_of(thread, rows, r);
      auto const cells = visit.cells_of(row / cell_side);
      for (int j = 0; j < keys / Tiles::side; ++j) {
        int const k = Tiles::column_of(thread, j);
        bool const seen = key + k <= first_row + row && key + k < heads.context && cells.has(k / cell_side);
        shared.p[row][k] = seen ? values[r][j] * scale : -INFINITY;
      }
    }
  }

  [[nodiscard]] ZEROTH_DEVICE static float largest_so_far(Shared const& shared, int row) {
    float largest = shared.largest[row];
    for (float const part : shared.part_largest[row]) {
      largest = Largest{}(largest, part);
    }
    return largest;
  }
  /// Adds the last tile to the previous ones.
  ZEROTH_DEVICE static void take_tile(Shared& shared, int thread, bool nothing_yet) {
    if (thread >= rows || nothing_yet) {
      return;
    }
    float const largest = largest_so_far(shared, thread);
    float sum = shared.sum[thread] * std::exp(shared.largest[thread] - finite_largest<Reads>(largest));
    for (float const part : shared.part_sum[thread]) {
      sum += part;
    }
    shared.sum[thread] = sum;
    shared.largest[thread] = largest;
  }
};

/// along[token, head]: the dot product of a row of the output and its gradient. A warp has one token and head.
template <Element T>
struct AttentionAlong {
  static constexpr int threads = 128, warps = threads / warp_threads;
  struct Shared {};

  T const *y, *dy;
  std::int64_t pairs, width;  // tokens * heads
  float* along;

  [[nodiscard]] std::int64_t work() const { return (pairs + warps - 1) / warps; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    each_row_group<warps>(block, pairs, [&](std::int64_t first) {
      PerThread<float, Block> sum;
      block.alone([&](int thread) {
        std::int64_t const pair = first + thread / warp_threads;
        sum[thread] = 0;
        for (std::int64_t d = thread % warp_threads; pair < pairs && d < width; d += warp_threads) {
          sum[thread] += float_of(y[pair * width + d]) * float_of(dy[pair * width + d]);
        }
      });
      block.fold_warps(sum, Plus{});
      block.alone([&](int thread) {
        std::int64_t const pair = first + thread / warp_threads;
        if (thread % warp_threads == 0 && pair < pairs) {
          along[pair] = sum[thread];
        }
      });
    });
  }
};

/// Computes a tile of probabilities and score gradients for this thread's queries and keys, and calls `write(query row,
/// key row, probability, gradient)`. `reads(query row, key row)`: whether the layout lets the query read the key.
template <int most_width, int rows, Element T, class Matrix, class Reads, class Write>
ZEROTH_DEVICE inline void score_again(int thread, AttentionGiven<T> const& given, HeadTile const& tile,
                                      std::int64_t first_query, std::int64_t first_key, Matrix const& q,
                                      Matrix const& k, Matrix const& dout, Matrix const& v, Reads const& reads,
                                      Write const& write) {
  using Tiles = AttentionTiles<most_width>;
  float scores[rows / Tiles::side][rows / Tiles::side], dp[rows / Tiles::side][rows / Tiles::side];
  multiply_rows<most_width, rows, rows>(thread, q, k, scores);
  multiply_rows<most_width, rows, rows>(thread, dout, v, dp);
  auto const& h = given.heads;
  for (int r = 0; r < rows / Tiles::side; ++r) {
    int const row = Tiles::row_of(thread, rows, r);
    std::int64_t const query = first_query + row;
    std::int64_t const pair = tile.pair(h, query);
    for (int j = 0; j < rows / Tiles::side; ++j) {
      int const column = Tiles::column_of(thread, j);
      float p = 0;
      float ds = 0;
      if (query < h.context && first_key + column <= query && reads(row, column)) {
        p = std::exp(scores[r][j] * given.scale - given.log_sums[pair]);
        ds = p * (dp[r][j] - given.along[pair]) * given.scale;
      }
      write(row, column, p, ds);
    }
  }
}

/// Writes the queries' part of dqkv. A block has a tile of queries.
template <Element T, int most_width, class Reads = ReadsAll>
struct AttentionBackwardQueries {
  using Tiles = AttentionTiles<most_width>;
  static constexpr int threads = Tiles::threads;
  static constexpr int rows = most_width <= 64 ? 32 : 16;
  static constexpr int own_rows = rows, visited_rows = rows;
  struct Shared {
    alignas(16) float q[rows][Tiles::stride], dout[rows][Tiles::stride], k[rows][Tiles::stride], v[rows][Tiles::stride];
    float ds[rows][rows + 1];
  };

  AttentionGiven<T> given;
  T* dqkv;
  Reads reads{};

  [[nodiscard]] std::int64_t work() const { return given.heads.all_tiles(rows); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    auto const& h = given.heads;
    std::int64_t const channels = h.channels();
    each_query_tile(block, h, rows, [&](HeadTile const& tile) {
      std::int64_t const first = std::int64_t{tile.tile} * rows;
      PerThread<HeadSums<most_width, rows>, Block> dq;
      block.phase([&](int thread) {
        load_tile<most_width>(thread, h, tile, given.qkv, 3 * channels, first, rows, shared.q);
        load_tile<most_width>(thread, h, tile, given.dy, channels, first, rows, shared.dout);
        dq[thread].clear();
      });
      auto const visits = reads.template visits<rows, rows>(h, tile, std::int64_t{0}, first + 1);
      for (auto i = visits.begin; i < visits.end; i += visits.step) {
        auto const visit = visits.at(i);
        std::int64_t const key = visit.row;
        block.phase([&](int thread) {
          load_tile<most_width>(thread, h, tile, given.qkv + channels, 3 * channels, key, rows, shared.k);
          load_tile<most_width>(thread, h, tile, given.qkv + 2 * channels, 3 * channels, key, rows, shared.v);
        });
        block.phase([&](int thread) {
          score_again<most_width, rows>(
              thread, given, tile, first, key, shared.q, shared.k, shared.dout, shared.v,
              [&](int row, int column) { return visit.cells_of(row / cell_side).has(column / cell_side); },
              [&](int row, int column, float /*p*/, float ds) { shared.ds[row][column] = ds; });
        });
        block.phase([&](int thread) {
          add_weighted_rows<most_width, rows>(
              thread, rows, [&](int row, int k) { return shared.ds[row][k]; }, shared.k, dq[thread].at);
        });
      }
      block.alone([&](int thread) { dq[thread].store(thread, h, tile, first, 3 * channels, dqkv); });
    });
  }
};

/// Writes the keys' and values' parts of dqkv. A block has a tile of keys.
template <Element T, int most_width, class Reads = ReadsAll>
struct AttentionBackwardKeys {
  using Tiles = AttentionTiles<most_width>;
  static constexpr int threads = Tiles::threads;
  static constexpr int rows = most_width <= 64 ? 32 : 16;
  static constexpr int own_rows = rows, visited_rows = rows;
  struct Shared {
    alignas(16) float q[rows][Tiles::stride], dout[rows][Tiles::stride], k[rows][Tiles::stride], v[rows][Tiles::stride];
    float p[rows][rows + 1], ds[rows][rows + 1];  // [query, key]
  };

  AttentionGiven<T> given;
  T* dqkv;
  Reads reads{};

  [[nodiscard]] std::int64_t work() const { return given.heads.all_tiles(rows); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    auto const& h = given.heads;
    std::int64_t const channels = h.channels();
    each_key_tile(block, h, rows, [&](HeadTile const& tile) {
      std::int64_t const first = std::int64_t{tile.tile} * rows;
      PerThread<HeadSums<most_width, rows>, Block> dk;
      PerThread<HeadSums<most_width, rows>, Block> dv;
      block.phase([&](int thread) {
        load_tile<most_width>(thread, h, tile, given.qkv + channels, 3 * channels, first, rows, shared.k);
        load_tile<most_width>(thread, h, tile, given.qkv + 2 * channels, 3 * channels, first, rows, shared.v);
        dk[thread].clear();
        dv[thread].clear();
      });
      auto const visits = reads.template visits<rows, rows>(h, tile, first, std::int64_t{h.context});
      for (auto i = visits.begin; i < visits.end; i += visits.step) {
        auto const visit = visits.at(i);
        std::int64_t const query = visit.row;
        block.phase([&](int thread) {
          load_tile<most_width>(thread, h, tile, given.qkv, 3 * channels, query, rows, shared.q);
          load_tile<most_width>(thread, h, tile, given.dy, channels, query, rows, shared.dout);
        });
        block.phase([&](int thread) {
          score_again<most_width, rows>(
              thread, given, tile, query, first, shared.q, shared.k, shared.dout, shared.v,
              [&](int row, int column) { return visit.cells_of(column / cell_side).has(row / cell_side); },
              [&](int row, int column, float p, float ds) {
                shared.p[row][column] = p;
                shared.ds[row][column] = ds;
              });
        });
        block.phase([&](int thread) {
          add_weighted_rows<most_width, rows>(
              thread, rows, [&](int row, int k) { return shared.ds[k][row]; }, shared.q, dk[thread].at);
          add_weighted_rows<most_width, rows>(
              thread, rows, [&](int row, int k) { return shared.p[k][row]; }, shared.dout, dv[thread].at);
        });
      }
      block.alone([&](int thread) {
        dk[thread].store(thread, h, tile, first, 3 * channels, dqkv + channels);
        dv[thread].store(thread, h, tile, first, 3 * channels, dqkv + 2 * channels);
      });
    });
  }
};

}  // namespace gpt::gpu
