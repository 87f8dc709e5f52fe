// SPDX-License-Identifier: Apache-2.0
/// The softmax over the vocabulary, its loss and its gradient.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "cpu/kernels/rows.hpp"
#include "cpu/memory.hpp"

namespace gpt::cpu {

/// Returns the mean loss. For each row stores the largest logit, the sum of the exponentials of all logits minus it,
/// and the loss.
template <class S>
S cross_entropy(Matrix<S> const& logits, std::vector<std::uint8_t> const& targets, S* largest, S* sums, S* losses) {
  double loss = 0;
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    ConstRow<S> const row{logits.data() + i * logits.stride(), logits.cols()};
    largest[i] = row.maxCoeff();
    sums[i] = (row - largest[i]).exp().sum();
    losses[i] = std::log(sums[i]) - (row[targets[static_cast<std::size_t>(i)]] - largest[i]);
    loss += static_cast<double>(losses[i]);
  }
  return static_cast<S>(loss / static_cast<double>(logits.rows()));
}

/// dlogits = (softmax - one at the target) * each. May share the memory of `logits`.
template <class S, class T>
void cross_entropy_backward(Matrix<S> const& logits, std::vector<std::uint8_t> const& targets, S const* largest,
                            S const* sums, S each, Matrix<T>& dlogits) {
  RowArray<S> row(logits.cols()), buffer(logits.cols());
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    row = (ConstRow<S>{logits.data() + i * logits.stride(), logits.cols()} - largest[i]).exp() * (1 / sums[i]);
    row[targets[static_cast<std::size_t>(i)]] -= 1;
    store(row * each, dlogits.data() + i * dlogits.stride(), buffer);
  }
}

}  // namespace gpt::cpu
