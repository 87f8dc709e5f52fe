// SPDX-License-Identifier: Apache-2.0
#include "zeroth/parallel/cross_entropy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "parallel/softmax_loops.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/parallel/tensor.hpp"

namespace zeroth {
namespace {

template <class T>
T const* row_of(View<T const, 2> const& logits, std::int64_t row) noexcept {
  return logits.data() + row * logits.extent(1);
}

/// An all-reduce in place over tensor ranks.
comm::Collective over_ranks(std::vector<float>& values, Reduce reduce) noexcept {
  return {.operation = comm::Operation::all_reduce,
          .input = values.data(),
          .output = values.data(),
          .count = std::ssize(values),
          .dtype = Dtype::fp32,
          .reduce = reduce};
}

void expect_shapes(Shape<2> const& logits, std::int64_t targets, VocabularyPart const& vocabulary) {
  ZEROTH_EXPECTS(
      logits[0] > 0 && targets == logits[0],
      fmt::format("cross_entropy() of {} targets and logits of {} rows; allowed: at least 1 row, and a target for each",
                  targets, logits[0]));
  ZEROTH_EXPECTS(
      logits[1] == vocabulary.padded,
      fmt::format("cross_entropy() of logits with {} columns, and a vocabulary of which this rank has {}, with "
                  "padding: see TensorParallel::rows()",
                  logits[1], vocabulary.padded));
}

}  // namespace

void CrossEntropyTape::reserve(std::int64_t rows) {
  auto const size = static_cast<std::size_t>(rows);
  for (auto* const each : {&largest_, &sums_, &losses_}) {
    each->reserve(size);
  }
  columns_.reserve(size);
}

void CrossEntropyTape::resize(std::int64_t rows) {
  auto const size = static_cast<std::size_t>(rows);
  for (auto* const each : {&largest_, &sums_, &losses_}) {
    each->resize(size);
  }
  columns_.resize(size);
}

VocabularyPart TensorParallel::rows_from(std::int64_t first, std::int64_t padded, std::int64_t all) const {
  if (ranks_ == 1) {
    return {0, all, all, all};
  }
  ZEROTH_EXPECTS(first >= 0,
                 fmt::format("rows() of a parameter whose rows, {} here of {}, {} tensor ranks do not divide in "
                             "one section: give it ParamOptions::cut = cut_of_vocabulary(model.tensor_part())",
                             padded, all, ranks_));
  ZEROTH_EXPECTS(
      first == std::min(index_ * padded, all),
      fmt::format("rows() on tensor rank {} of {}, of a parameter that begins with row {}: its model was made "
                  "for another tensor rank",
                  index_, ranks_, first));
  return {first, std::min(padded, all - first), padded, all};
}

template <Element T>
float TensorParallel::cross_entropy(View<T const, 2> const& logits, std::span<std::int64_t const> targets,
                                    VocabularyPart const& vocabulary, CrossEntropyTape& tape) {
  expect_waited("cross_entropy()");
  expect_shapes(logits.shape(), std::ssize(targets), vocabulary);
  ZEROTH_EXPECTS(on_host_,
                 "cross_entropy() on a GPU: it reads logits in host memory; compute the same with kernels and "
                 "TensorParallel::start()");
  auto const rows = logits.extent(0);
  tape.resize(rows);
  tape.vocabulary_ = vocabulary;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    ZEROTH_EXPECTS(
        targets[i] >= 0 && targets[i] < vocabulary.all,
        fmt::format("cross_entropy(): the target of row {} is {}; allowed are the words of the vocabulary, 0 to {}", i,
                    targets[i], vocabulary.all - 1));
    tape.columns_[i] = vocabulary.has(targets[i]) ? targets[i] - vocabulary.first : CrossEntropyTape::elsewhere;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    tape.largest_[static_cast<std::size_t>(i)] = parallel::largest_of(row_of(logits, i), vocabulary.count);
  }
  if (collectives_) {
    start_one(over_ranks(tape.largest_, Reduce::maximum), "cross_entropy()").wait();
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    auto const at = static_cast<std::size_t>(i);
    auto const* const row = row_of(logits, i);
    tape.sums_[at] = parallel::sum_of_exponentials(row, vocabulary.count, tape.largest_[at]);
    auto const column = tape.columns_[at];
    tape.losses_[at] = column < 0 ? 0.0F : tape.largest_[at] - to_float(row[column]);
  }
  if (collectives_) {
    std::array const sums{over_ranks(tape.sums_, Reduce::sum), over_ranks(tape.losses_, Reduce::sum)};
    start(sums, "cross_entropy()").wait();
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    tape.losses_[i] += std::log(tape.sums_[i]);
  }
  auto const sum = std::accumulate(tape.losses_.begin(), tape.losses_.end(), 0.0);
  return static_cast<float>(sum / static_cast<double>(rows));
}

template <Element T, Element S>
void TensorParallel::cross_entropy_backward(View<T const, 2> const& logits, CrossEntropyTape const& tape, float seed,
                                            View<S, 2> const& slopes) const {
  auto const& vocabulary = tape.vocabulary_;
  auto const rows = std::ssize(tape.columns_);
  Shape<2> const of_tape{rows, vocabulary.padded};
  ZEROTH_EXPECTS(
      logits.shape() == of_tape && slopes.shape() == of_tape,
      fmt::format("cross_entropy_backward() of logits [{}, {}] to slopes [{}, {}], behind a cross_entropy() of logits "
                  "[{}, {}]; allowed: equal shapes",
                  logits.extent(0), logits.extent(1), slopes.extent(0), slopes.extent(1), of_tape[0], of_tape[1]));
  float const each = seed / static_cast<float>(rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    auto const at = static_cast<std::size_t>(i);
    auto* const to = slopes.data() + i * vocabulary.padded;
    parallel::softmax_slopes(row_of(logits, i), vocabulary.count, {tape.largest_[at], tape.sums_[at], each},
                             tape.columns_[at], to);
    std::fill(to + vocabulary.count, to + vocabulary.padded, S{});
  }
}

#define ZEROTH_BACKWARD(T, S)                                                                                          \
  template ZEROTH_EXPORT void TensorParallel::cross_entropy_backward(View<T const, 2> const&, CrossEntropyTape const&, \
                                                                     float, View<S, 2> const&) const;
#define ZEROTH_CROSS_ENTROPY(T)                                                                                      \
  template ZEROTH_EXPORT float TensorParallel::cross_entropy(View<T const, 2> const&, std::span<std::int64_t const>, \
                                                             VocabularyPart const&, CrossEntropyTape&);              \
  ZEROTH_BACKWARD(T, float) ZEROTH_BACKWARD(T, bf16) ZEROTH_BACKWARD(T, fp16)
ZEROTH_CROSS_ENTROPY(float)
ZEROTH_CROSS_ENTROPY(bf16)
ZEROTH_CROSS_ENTROPY(fp16)
#undef ZEROTH_CROSS_ENTROPY
#undef ZEROTH_BACKWARD

}  // namespace zeroth
