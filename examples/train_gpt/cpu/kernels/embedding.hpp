// SPDX-License-Identifier: Apache-2.0
/// Tokens to vectors, and the gradients of those, each summed in fp32 and rounded once.
#pragma once
#include <cstdint>
#include <vector>

#include "batches.hpp"
#include "cpu/kernels/rows.hpp"
#include "cpu/memory.hpp"
#include "token_order.hpp"

namespace gpt::cpu {

template <class T>
void embed(Batch const& batch, T const* tokens, T const* positions, std::int64_t context, Matrix<T>& x) {
  using S = WideOf<T>;
  auto const cols = x.cols();
  RowArray<S> token(cols), position(cols);
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    auto const* const of_token = tokens + batch.inputs[static_cast<std::size_t>(i)] * cols;
    store(widened(of_token, cols, token) + widened(positions + i % context * cols, cols, position),
          x.data() + i * x.stride(), token);
  }
}

/// Where each token is, in memory that is used again.
struct TokenOrder {
  std::vector<std::int32_t> order, first;
};

template <class T, class Gradient>
void embed_tokens_backward(Batch const& batch, Matrix<T> const& dx, TokenOrder& where, Gradient const& gradient) {
  using S = WideOf<T>;
  auto const vocabulary = gradient.shape()[0];
  auto const cols = dx.cols();
  where.order.resize(batch.inputs.size());
  where.first.resize(static_cast<std::size_t>(vocabulary) + 1);
  sort_by_token(batch.inputs, where.order, where.first);
  RowArray<S> sum(cols), buffer(cols);
  for (std::int64_t token = 0; token < vocabulary; ++token) {
    auto const begin = where.first[static_cast<std::size_t>(token)],
               end = where.first[static_cast<std::size_t>(token) + 1];
    if (begin == end && gradient.beta() != 0) {
      continue;
    }
    sum.setZero();
    for (auto at = begin; at < end; ++at) {
      sum += widened(dx.data() + where.order[static_cast<std::size_t>(at)] * dx.stride(), cols, buffer);
    }
    contribute(sum, gradient.data() + token * cols, gradient.beta(), buffer);
  }
}

template <class T, class Gradient>
void embed_positions_backward(Matrix<T> const& dx, Gradient const& gradient) {
  using S = WideOf<T>;
  auto const context = gradient.shape()[0];
  auto const cols = dx.cols();
  RowArray<S> sum(cols), buffer(cols);
  for (std::int64_t position = 0; position < context; ++position) {
    sum.setZero();
    for (auto row = position; row < dx.rows(); row += context) {
      sum += widened(dx.data() + row * dx.stride(), cols, buffer);
    }
    contribute(sum, gradient.data() + position * cols, gradient.beta(), buffer);
  }
}

}  // namespace gpt::cpu
