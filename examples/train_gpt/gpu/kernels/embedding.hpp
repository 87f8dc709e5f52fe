// SPDX-License-Identifier: Apache-2.0
/// Maps tokens to vectors, and computes the gradients of the two embeddings.
#pragma once
#include "gpu/kernels/columns.hpp"

namespace gpt::gpu {

/// x[i] = tokens[inputs[i]] + positions[i % context]
template <Element T>
struct Embed {
  static constexpr int threads = 128;
  static constexpr int pack = pack_count<T>;
  struct Shared {};

  std::int32_t const* inputs;
  T const *tokens, *positions;
  std::int64_t rows, channels, context;
  T* x;

  [[nodiscard]] std::int64_t work() const { return rows; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    auto const add = [&](auto const& access) {
      block.alone([&](int thread) {
        for (std::int64_t i = block.index(); i < rows; i += block.count()) {
          T const* const token = tokens + inputs[i] * channels;
          T const* const position = positions + i % context * channels;
          for (std::int64_t c = thread * pack; c < channels; c += threads * pack) {
            auto const a = access.read(token, c);
            auto const b = access.read(position, c);
            Pack<float, pack> sum;
            for (int k = 0; k < pack; ++k) {
              sum.at[k] = float_of(a.at[k]) + float_of(b.at[k]);
            }
            access.write(x + i * channels, c, from_floats<T>(sum));
          }
        }
      });
    };
    with_row_packs<pack>(channels, add, tokens, positions, x);
  }
};

/// x[i] = tokens[inputs[i] - first_word], or 0 if the table has no such row.
template <Element T>
struct EmbedPart {
  static constexpr int threads = 128;
  static constexpr int pack = pack_count<T>;
  struct Shared {};

  std::int32_t const* inputs;
  T const* tokens;
  std::int64_t first_word, words;
  std::int64_t rows, channels;
  T* x;

  [[nodiscard]] std::int64_t work() const { return rows; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    auto const copy = [&](auto const& access) {
      block.alone([&](int thread) {
        for (std::int64_t i = block.index(); i < rows; i += block.count()) {
          std::int64_t const row = inputs[i] - first_word;
          bool const here = row >= 0 && row < words;
          for (std::int64_t c = thread * pack; c < channels; c += threads * pack) {
            access.write(x + i * channels, c, here ? access.read(tokens + row * channels, c) : Pack<T, pack>{});
          }
        }
      });
    };
    with_row_packs<pack>(channels, copy, tokens, x);
  }
};

/// y[i] += rows_to_add[(first + i) % period], rounded once: positions, a bias, or another matrix.
template <Element T>
struct AddRows {
  static constexpr int threads = 128;
  static constexpr int pack = pack_count<T>;
  struct Shared {};

  T const* rows_to_add;
  std::int64_t period, first;
  std::int64_t rows, channels;
  T* y;

  [[nodiscard]] std::int64_t work() const { return rows; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    auto const add = [&](auto const& access) {
      block.alone([&](int thread) {
        for (std::int64_t i = block.index(); i < rows; i += block.count()) {
          T const* const addend = rows_to_add + (first + i) % period * channels;
          for (std::int64_t c = thread * pack; c < channels; c += threads * pack) {
            auto const a = access.read(y + i * channels, c);
            auto const b = access.read(addend, c);
            Pack<float, pack> sum;
            for (int k = 0; k < pack; ++k) {
              sum.at[k] = float_of(a.at[k]) + float_of(b.at[k]);
            }
            access.write(y + i * channels, c, from_floats<T>(sum));
          }
        }
      });
    };
    with_row_packs<pack>(channels, add, rows_to_add, y);
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
          continue;  // most tokens do not occur and add nothing
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
