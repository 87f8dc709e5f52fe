// SPDX-License-Identifier: Apache-2.0
/// Sums over rows, for gradients of biases, LayerNorms and embeddings. The order is the same on every GPU.
#pragma once
#include "gpu/kernels/row_packs.hpp"

namespace gpt::gpu {

/// The division of a sum over some columns among a block: `packs` threads share a row, and each thread sums every
/// lanes-th row.
template <int count, int packs>
struct ColumnSums {
  static constexpr int threads = 256, lanes = threads / packs, columns = packs * count;
  Pack<float, count> at[lanes][packs];

  [[nodiscard]] static ZEROTH_HOST_DEVICE std::int64_t tiles(std::int64_t all_columns) {
    return (all_columns + columns - 1) / columns;
  }
};

/// Sums rows [begin, end) of the columns of one tile. `address(row)` returns the start of a row; `write(column, pack)`
/// gets the sums.
template <int count, int packs, Way way, class Block, class Address, class Write>
ZEROTH_DEVICE void sum_rows(Block& block, ColumnSums<count, packs>& sums, RowPacks<count, way> const& rows,
                            std::int64_t begin, std::int64_t end, std::int64_t tile, Address const& address,
                            Write const& write) {
  using Sums = ColumnSums<count, packs>;
  block.phase([&](int thread) {
    constexpr int at_once = way == Way::elements ? 1 : 4;  // number of loads in flight
    std::int64_t const column = tile * Sums::columns + thread % packs * count;
    Pack<float, count> sum{};
    if (column < rows.columns) {
      ZEROTH_UNROLL_NOT
      for (std::int64_t row = begin + thread / packs; row < end; row += at_once * Sums::lanes) {
        decltype(rows.read(address(row), column)) values[at_once];
        auto const each = [&](auto const& function) {
          ZEROTH_UNROLL
          for (int r = 0; r < at_once; ++r) {
            if (row + r * Sums::lanes < end) {
              function(r);
            }
          }
        };
        each([&](int r) { values[r] = rows.read(address(row + r * Sums::lanes), column); });
        each([&](int r) {
          for (int k = 0; k < count; ++k) {
            sum.at[k] += float_of(values[r].at[k]);
          }
        });
      }
    }
    sums.at[thread / packs][thread % packs] = sum;
  });
  block.phase([&](int thread) {
    std::int64_t const column = tile * Sums::columns + thread * count;
    if (thread >= packs || column >= rows.columns) {
      return;
    }
    auto sum = sums.at[0][thread];
    for (int lane = 1; lane < Sums::lanes; ++lane) {
      for (int k = 0; k < count; ++k) {
        sum.at[k] += sums.at[lane][thread].at[k];
      }
    }
    write(column, sum);
  });
}

/// Writes beta * old + new, rounded once. At beta 0 the old value is not read.
template <int count, Way way, Element G>
ZEROTH_DEVICE inline void contribute(RowPacks<count, way> const& rows, G* row, std::int64_t column, float beta,
                                     Pack<float, count> const& values) {
  auto sums = values;
  if (beta != 0) {
    auto const old = rows.read(row, column);
    for (int k = 0; k < count; ++k) {
      sums.at[k] += float_of(old.at[k]);
    }
  }
  rows.write(row, column, from_floats<G>(sums));
}

/// Sums over chunks of rows.
template <Element T>
struct ChunkSums {
  static constexpr int pack = pack_count<T>;
  using Shared = ColumnSums<pack, warp_threads>;
  static constexpr int threads = Shared::threads;
  static constexpr int resident_blocks = 5;  // bound by memory latency: as many as registers allow
  static constexpr std::int64_t rows_of_a_chunk = 64;

  T const* values;
  std::int64_t rows, columns;
  float* sums;  // [chunks, columns]

  [[nodiscard]] ZEROTH_HOST_DEVICE static std::int64_t chunks_of(std::int64_t rows) {
    return (rows + rows_of_a_chunk - 1) / rows_of_a_chunk;
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const { return chunks_of(rows) * Shared::tiles(columns); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    auto const add = [&](auto const& access) {
      std::int64_t const tiles = Shared::tiles(columns);
      for (std::int64_t i = block.index(); i < work(); i += block.count()) {
        std::int64_t const chunk = i / tiles;
        std::int64_t const begin = chunk * rows_of_a_chunk;
        std::int64_t const end = begin + rows_of_a_chunk < rows ? begin + rows_of_a_chunk : rows;
        sum_rows(
            block, shared, access, begin, end, i % tiles, [&](std::int64_t row) { return values + row * columns; },
            [&](std::int64_t column, auto const& sum) { access.write(sums + chunk * columns, column, sum); });
      }
    };
    with_row_packs<pack>(columns, add, values, sums);
  }
};

/// Sums the chunks into a gradient.
template <Element G>
struct FoldChunks {
  static constexpr int pack = pack_count<float>;
  using Shared = ColumnSums<pack, 8>;
  static constexpr int threads = Shared::threads;

  float const* sums;    // sums of the first chunk
  std::int64_t stride;  // distance between the sums of successive chunks
  std::int64_t chunks, columns;
  G* gradient;
  float beta;

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const { return Shared::tiles(columns); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    auto const add = [&](auto const& access) {
      for (std::int64_t tile = block.index(); tile < work(); tile += block.count()) {
        sum_rows(
            block, shared, access, 0, chunks, tile, [&](std::int64_t chunk) { return sums + chunk * stride; },
            [&](std::int64_t column, auto const& sum) { contribute(access, gradient, column, beta, sum); });
      }
    };
    with_row_packs<pack>(columns, add, sums, gradient);
  }
};

}  // namespace gpt::gpu
