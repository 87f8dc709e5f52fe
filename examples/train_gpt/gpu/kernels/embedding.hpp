/// Tokens to vectors, and the gradients of the two embeddings.
#pragma once
#include "gpu/kernels/columns.hpp"

namespace gpt::gpu {

/// x[i] = tokens[inputs[i]] + positions[i % context]
template <Element T>
struct Embed {
  static constexpr int threads = 128;
  struct Shared {};

  std::int32_t const* inputs;
  T const *tokens, *positions;
  std::int64_t rows, channels, context;
  T* x;

  [[nodiscard]] std::int64_t work() const { return rows; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.phase([&](int thread) {
      for (std::int64_t i = block.index(); i < rows; i += block.count()) {
        T const* const token = tokens + inputs[i] * channels;
        T const* const position = positions + i % context * channels;
        for (std::int64_t c = thread; c < channels; c += threads) {
          x[i * channels + c] = from_float<T>(to_float(token[c]) + to_float(position[c]));
        }
      }
    });
  }
};

/// The gradient of token t is the sum of rows order[first[t]] ... order[first[t + 1] - 1], in this order: nobody adds
/// to the same address as somebody else.
template <Element T, Element G>
struct EmbedTokensBackward {
  static constexpr int threads = ColumnSums<1>::threads;
  using Shared = ColumnSums<1>;

  T const* dx;
  std::int32_t const *order, *first;
  std::int64_t vocabulary, channels;
  G* gradient;
  float beta;

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const {
    return (channels + Shared::columns - 1) / Shared::columns;
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const { return vocabulary * tiles(); }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    for (std::int64_t i = block.index(); i < work(); i += block.count()) {
      std::int64_t const token = i / tiles();
      sum_rows<1>(
          block, shared, first[token], first[token + 1], i % tiles() * Shared::columns, channels,
          [&](std::int64_t k, std::int64_t c, float* sum) { sum[0] += to_float(dx[order[k] * channels + c]); },
          [&](std::int64_t c, float const* sum) { contribute(gradient + token * channels + c, beta, sum[0]); });
    }
  }
};

/// The gradient of a position is the sum over sequences.
template <Element T, Element G>
struct EmbedPositionsBackward {
  static constexpr int threads = 128;
  struct Shared {};

  T const* dx;
  std::int64_t rows, channels, context;
  G* gradient;
  float beta;

  [[nodiscard]] std::int64_t work() const { return (context * channels + threads - 1) / threads; }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    std::int64_t const count = context * channels;
    block.phase([&](int thread) {
      for (std::int64_t i = block.index() * threads + thread; i < count; i += block.count() * threads) {
        float sum = 0;
        for (std::int64_t k = i; k < rows * channels; k += count) {
          sum += to_float(dx[k]);
        }
        contribute(gradient + i, beta, sum);
      }
    });
  }
};

}  // namespace gpt::gpu
