/// Sums over rows: of gradients of biases, of LayerNorms, of embeddings. Always in the same order, whatever the GPU.
#pragma once
#include <cstdint>

#include "cuda/block.hpp"
#include "zeroth/core/dtype.hpp"

namespace gpt::gpu {

using zeroth::Element;
using zeroth::from_float;
using zeroth::to_float;

/// What 32 columns are added up in: each thread adds every eighth row of one column.
template <int terms>
struct ColumnSums {
  static constexpr int columns = 32, lanes = 8, threads = columns * lanes;
  float at[terms][lanes][columns];
};

/// Adds up rows [begin, end) of the columns from `first` on: `read(row, column, values)` adds a row's terms to
/// `values`, and `write(column, values)` gets the sums.
template <int terms, class Block, class Read, class Write>
ZEROTH_DEVICE void sum_rows(Block& block, ColumnSums<terms>& sums, std::int64_t begin, std::int64_t end,
                            std::int64_t first, std::int64_t columns, Read const& read, Write const& write) {
  using Sums = ColumnSums<terms>;
  block.phase([&](int thread) {
    int const column = thread % Sums::columns;
    int const lane = thread / Sums::columns;
    float values[terms] = {};
    if (first + column < columns) {
      for (std::int64_t row = begin + lane; row < end; row += Sums::lanes) {
        read(row, first + column, values);
      }
    }
    for (int k = 0; k < terms; ++k) {
      sums.at[k][lane][column] = values[k];
    }
  });
  block.phase([&](int thread) {
    if (thread >= Sums::columns || first + thread >= columns) {
      return;
    }
    float values[terms] = {};
    for (int k = 0; k < terms; ++k) {
      for (int lane = 0; lane < Sums::lanes; ++lane) {
        values[k] += sums.at[k][lane][thread];
      }
    }
    write(first + thread, values);
  });
}

/// beta * old + new, rounded once. At beta 0 the old value is not read.
template <Element G>
ZEROTH_DEVICE inline void contribute(G* to, float beta, float value) {
  *to = from_float<G>(beta == 0 ? value : to_float(*to) + value);
}

/// Terms of every row, added up over chunks of rows.
template <class Terms>
struct ChunkSums {
  static constexpr int threads = ColumnSums<Terms::count>::threads;
  static constexpr std::int64_t rows_of_a_chunk = 256;
  using Shared = ColumnSums<Terms::count>;

  Terms terms;
  std::int64_t rows, columns;
  float* sums;  // [chunks, count, columns]

  [[nodiscard]] ZEROTH_HOST_DEVICE static std::int64_t chunks_of(std::int64_t rows) {
    return (rows + rows_of_a_chunk - 1) / rows_of_a_chunk;
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const {
    return (columns + Shared::columns - 1) / Shared::columns;
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const { return chunks_of(rows) * tiles(); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    for (std::int64_t i = block.index(); i < work(); i += block.count()) {
      std::int64_t const chunk = i / tiles();
      std::int64_t const begin = chunk * rows_of_a_chunk;
      std::int64_t const end = begin + rows_of_a_chunk < rows ? begin + rows_of_a_chunk : rows;
      sum_rows<Terms::count>(block, shared, begin, end, i % tiles() * Shared::columns, columns, terms,
                             [&](std::int64_t column, float const* values) {
                               for (int k = 0; k < Terms::count; ++k) {
                                 sums[(chunk * Terms::count + k) * columns + column] = values[k];
                               }
                             });
    }
  }
};

/// The values themselves.
template <Element T>
struct ValueTerms {
  static constexpr int count = 1;
  T const* values;
  std::int64_t columns;
  ZEROTH_DEVICE void operator()(std::int64_t row, std::int64_t column, float* sums) const {
    sums[0] += to_float(values[row * columns + column]);
  }
};

/// A gradient, out of the sums of all chunks.
template <Element G>
struct FoldChunks {
  static constexpr int threads = 128;
  struct Shared {};

  float const* sums;    // of the first chunk
  std::int64_t stride;  // from one chunk's sums to the next's
  std::int64_t chunks, columns;
  G* gradient;
  float beta;

  [[nodiscard]] std::int64_t work() const { return (columns + threads - 1) / threads; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.phase([&](int thread) {
      for (std::int64_t i = block.index() * threads + thread; i < columns; i += block.count() * threads) {
        float sum = 0;
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
          sum += sums[chunk * stride + i];
        }
        contribute(gradient + i, beta, sum);
      }
    });
  }
};

}  // namespace gpt::gpu
