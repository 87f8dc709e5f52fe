// SPDX-License-Identifier: Apache-2.0
/// Maps tokens to vectors, and computes the gradients of the two embeddings.
#pragma once
#include "gpu/kernels/columns.hpp"

namespace gpt::gpu {

/// A pass over rows, one per block, whose threads share the columns.
template <Element T>
struct RowPass {
  static constexpr int threads = 128;
  static constexpr int pack = pack_count<T>;
  struct Shared {};

  std::int64_t rows, channels;

  [[nodiscard]] std::int64_t work() const { return rows; }

 protected:
  /// Calls `function(access, row, each_pack)`; each_pack(f) calls f(column) for this thread's packs. `arrays` are those
  /// whose rows `access` reads and writes.
  template <class Block, class F>
  ZEROTH_DEVICE void each_row(Block& block, F const& function, auto const*... arrays) const {
    auto const pass = [&](auto const& access) {
      block.alone([&](int thread) {
        auto const each_pack = [&](auto const& of_pack) {
          for (std::int64_t column = thread * pack; column < channels; column += threads * pack) {
            of_pack(column);
          }
        };
        for (std::int64_t row = block.index(); row < rows; row += block.count()) {
          function(access, row, each_pack);
        }
      });
    };
    with_row_packs<pack>(channels, pass, arrays...);
  }

  /// to = a + b, rounded once.
  template <class Access>
  ZEROTH_DEVICE static void add(Access const& access, T const* a, T const* b, T* to, std::int64_t column) {
    auto const first = access.read(a, column);
    auto const second = access.read(b, column);
    Pack<float, pack> sum;
    for (int k = 0; k < pack; ++k) {
      sum.at[k] = float_of(first.at[k]) + float_of(second.at[k]);
    }
    access.write(to, column, from_floats<T>(sum));
  }
};

/// x[i] = tokens[inputs[i]] + positions[i % context]
template <Element T>
struct Embed : RowPass<T> {
  using typename RowPass<T>::Shared;
  using RowPass<T>::channels;

  std::int32_t const* inputs;
  T const *tokens, *positions;
  std::int64_t context;
  T* x;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    auto const embed = [&](auto const& access, std::int64_t row, auto const& each_pack) {
      T const* const token = tokens + inputs[row] * channels;
      T const* const position = positions + row % context * channels;
      each_pack([&](std::int64_t column) { this->add(access, token, position, x + row * channels, column); });
    };
    this->each_row(block, embed, tokens, positions, x);
  }
};

/// x[i] = tokens[inputs[i] - first_word], or 0 if the table has no such row.
template <Element T>
struct EmbedPart : RowPass<T> {
  using typename RowPass<T>::Shared;
  using RowPass<T>::channels, RowPass<T>::pack;

  std::int32_t const* inputs;
  T const* tokens;
  std::int64_t first_word, words;
  T* x;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    auto const embed = [&](auto const& access, std::int64_t row, auto const& each_pack) {
      std::int64_t const word = inputs[row] - first_word;
      bool const here = word >= 0 && word < words;
      each_pack([&](std::int64_t column) {
        access.write(x + row * channels, column,
                     here ? access.read(tokens + word * channels, column) : Pack<T, pack>{});
      });
    };
    this->each_row(block, embed, tokens, x);
  }
};

/// y[i] += rows_to_add[(first + i) % period], rounded once: positions, a bias, or another matrix.
template <Element T>
struct AddRows : RowPass<T> {
  using typename RowPass<T>::Shared;
  using RowPass<T>::channels;

  T const* rows_to_add;
  std::int64_t period, first;
  T* y;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    auto const add_row = [&](auto const& access, std::int64_t row, auto const& each_pack) {
      T const* const addend = rows_to_add + (first + row) % period * channels;
      T* const to = y + row * channels;
      each_pack([&](std::int64_t column) { this->add(access, to, addend, to, column); });
    };
    this->each_row(block, add_row, rows_to_add, y);
  }
};

/// The gradient of token t is the sum of rows order[first[t]] ... order[first[t + 1] - 1], so that each address has one
/// writer.
template <Element T, Element G>
struct EmbedTokensBackward {
  static constexpr int pack = pack_count<T, G>;
  using Shared = ColumnSums<pack, warp_threads>;
  static constexpr int threads = Shared::threads, resident_blocks = 5;

  T const* dx;
  std::int32_t const *order, *first;
  std::int64_t vocabulary, channels;
  G* gradient;
  float beta;

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const { return vocabulary * Shared::tiles(channels); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    auto const add = [&](auto const& access) {
      std::int64_t const tiles = Shared::tiles(channels);
      for (std::int64_t i = block.index(); i < work(); i += block.count()) {
        std::int64_t const token = i / tiles;
        if (first[token] == first[token + 1] && beta != 0) {
          continue;  // most tokens do not occur, so they add nothing
        }
        sum_rows(
            block, shared, access, first[token], first[token + 1], i % tiles,
            [&](std::int64_t k) { return dx + order[k] * channels; },
            [&](std::int64_t column, auto const& sum) {
              contribute(access, gradient + token * channels, column, beta, sum);
            });
      }
    };
    with_row_packs<pack>(channels, add, dx, gradient);
  }
};

/// The gradient of a position is the sum over sequences of `context` rows each, handled as one long row.
template <Element T, Element G>
struct EmbedPositionsBackward {
  static constexpr int pack = pack_count<T, G>;
  using Shared = ColumnSums<pack, warp_threads>;
  static constexpr int threads = Shared::threads, resident_blocks = 5;

  T const* dx;
  std::int64_t rows, channels, context;
  G* gradient;
  float beta;

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const { return Shared::tiles(context * channels); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    std::int64_t const columns = context * channels;
    auto const add = [&](auto const& access) {
      for (std::int64_t tile = block.index(); tile < work(); tile += block.count()) {
        sum_rows(
            block, shared, access, 0, rows / context, tile,
            [&](std::int64_t sequence) { return dx + sequence * columns; },
            [&](std::int64_t column, auto const& sum) { contribute(access, gradient, column, beta, sum); });
      }
    };
    with_row_packs<pack>(columns, add, dx, gradient);
  }
};

}  // namespace gpt::gpu
