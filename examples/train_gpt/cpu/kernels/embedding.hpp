// SPDX-License-Identifier: Apache-2.0
/// Maps tokens to vectors, and computes the vectors' gradients, each summed in fp32 and rounded once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include <zeroth/parallel/cross_entropy.hpp>

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

/// Rows of the tokens whose vectors this rank has; zeros for others.
template <class T>
void embed_part(Batch const& batch, T const* tokens, zeroth::VocabularyPart const& words, Matrix<T>& x) {
  auto const cols = x.cols();
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    std::int64_t const token = batch.inputs[static_cast<std::size_t>(i)];
    auto* const row = x.data() + i * x.stride();
    if (words.has(token)) {
      std::copy_n(tokens + (token - words.first) * cols, cols, row);
    } else {
      std::fill_n(row, cols, T{});
    }
  }
}

/// Adds each row's position vector to x, which begins with row `first` of the micro-batch.
template <class T>
void add_positions(T const* positions, std::int64_t context, std::int64_t first, Matrix<T>& x) {
  auto const cols = x.cols();
  RowArray<WideOf<T>> token(cols), position(cols);
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    auto* const row = x.data() + i * x.stride();
    store(widened(row, cols, token) + widened(positions + (first + i) % context * cols, cols, position), row, token);
  }
}

/// The positions of each token, in reused memory.
struct TokenOrder {
  std::vector<std::int32_t> order, first;
};

/// Handles the words that this rank has.
template <class T, class Gradient>
void embed_tokens_backward(Batch const& batch, Matrix<T> const& dx, zeroth::VocabularyPart const& words,
                           TokenOrder& where, Gradient const& gradient) {
  using S = WideOf<T>;
  auto const cols = dx.cols();
  where.order.resize(batch.inputs.size());
  where.first.resize(static_cast<std::size_t>(words.all) + 1);
  sort_by_token(batch.inputs, where.order, where.first);
  RowArray<S> sum(cols), buffer(cols);
  for (std::int64_t row = 0; row < words.count; ++row) {
    auto const token = static_cast<std::size_t>(words.first + row);
    auto const begin = where.first[token], end = where.first[token + 1];
    if (begin == end && gradient.beta() != 0) {
      continue;
    }
    sum.setZero();
    for (auto at = begin; at < end; ++at) {
      sum += widened(dx.data() + where.order[static_cast<std::size_t>(at)] * dx.stride(), cols, buffer);
    }
    contribute(sum, gradient.data() + row * cols, gradient.beta(), buffer);
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
