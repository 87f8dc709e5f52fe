// SPDX-License-Identifier: Apache-2.0
/// Cross-entropy's kernels against softmax in double.
///
/// Tolerances: probabilities in fp32 come from sums of at most some thousand positive terms, in parts of some tens, so
/// 1e-5 of the largest value leaves a margin of a decimal digit for rounding. Values stored in 16 bits are rounded once
/// more, by at most 2^-9 (bf16) or 2^-11 (fp16) of themselves.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "examples/gpu/numbers.hpp"
#include "gpu/bodies.hpp"

namespace gpt::gpu {
namespace {

using namespace gpt::testing;

/// The memory layout of rows.
struct Place {
  std::int64_t stride, shift = 0;  ///< Elements from row to row, and after an aligned address.
};

std::int64_t round_up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }

/// Rows of `width` values, with NaN between them.
template <class T>
class RowsOnMachine {
 public:
  RowsOnMachine(std::vector<T> const& values, std::int64_t width, Place const& place)
      : width_{width},
        stride_{place.stride},
        before_{garbage<T>(std::ssize(values) / width * place.stride)},
        memory_{with(values), place.shift} {}

  template <class View = T>
  [[nodiscard]] StridedRows<View> rows() const {
    return {memory_.data(), std::ssize(before_) / stride_, width_, stride_};
  }
  /// Rows of another type that begin at the same addresses.
  template <class View>
  [[nodiscard]] StridedRows<View> rows_in_place() const {
    return {reinterpret_cast<View*>(memory_.data()), std::ssize(before_) / stride_, width_,
            stride_ * std::int64_t{sizeof(T) / sizeof(View)}};
  }
  /// Their values.
  template <class View>
  [[nodiscard]] std::vector<View> values_in_place() const {
    auto const now = memory_.values();
    std::vector<View> result(static_cast<std::size_t>(std::ssize(now) / stride_ * width_));
    for (std::int64_t row = 0; row * stride_ < std::ssize(now); ++row) {
      std::memcpy(result.data() + row * width_, now.data() + row * stride_,
                  static_cast<std::size_t>(width_) * sizeof(View));
    }
    return result;
  }
  /// The values. Nothing between the rows may have changed.
  [[nodiscard]] std::vector<T> values() const {
    auto const now = memory_.values();
    std::vector<T> result, between, between_before;
    for (std::int64_t i = 0; i < std::ssize(now); ++i) {
      (i % stride_ < width_ ? result : between).push_back(now[static_cast<std::size_t>(i)]);
      if (i % stride_ >= width_) {
        between_before.push_back(before_[static_cast<std::size_t>(i)]);
      }
    }
    CHECK(zeroth::testing::same_bits(between, between_before));
    return result;
  }

 private:
  [[nodiscard]] std::vector<T> with(std::vector<T> const& values) const {
    auto all = before_;
    for (std::int64_t i = 0; i < std::ssize(values); ++i) {
      all[static_cast<std::size_t>(i / width_ * stride_ + i % width_)] = values[static_cast<std::size_t>(i)];
    }
    return all;
  }

  std::int64_t width_, stride_;
  std::vector<T> before_;
  zeroth::testing::OnMachine<T> memory_;
};

struct Problem {
  std::int64_t vocabulary;
  std::vector<float> logits;
  std::vector<std::int32_t> targets;
  [[nodiscard]] std::int64_t rows() const { return std::ssize(targets); }
};

Problem random_problem(std::int64_t rows, std::int64_t vocabulary) {
  Problem problem{vocabulary, random_values<float>(rows * vocabulary, 1), {}};
  for (std::int64_t i = 0; i < rows; ++i) {
    problem.targets.push_back(static_cast<std::int32_t>(i * 7 % vocabulary));
  }
  return problem;
}

/// The kernels' results for a problem.
template <class T>
struct Outcome {
  std::vector<float> losses, mean;
  std::vector<T> dlogits;
};

template <class T>
Outcome<T> outcome_of(Problem const& problem, float seed, Place const& place, Place const& place_of_gradient) {
  auto const rows = problem.rows();
  RowsOnMachine<float> const logits{problem.logits, problem.vocabulary, place};
  RowsOnMachine<T> const dlogits{garbage<T>(rows * problem.vocabulary), problem.vocabulary, place_of_gradient};
  OnMachine<std::int32_t> const targets{problem.targets};
  OnMachine<float> const largest{garbage<float>(rows)}, sums{garbage<float>(rows)}, losses{garbage<float>(rows)};
  OnMachine<float> const mean{garbage<float>(1)};
  auto const given = logits.template rows<float const>();
  run(CrossEntropy{given, targets.data(), largest.data(), sums.data(), losses.data()});
  run(MeanLoss{losses.data(), nullptr, rows, mean.data()});
  run(CrossEntropyBackward<T>{given, targets.data(), 0, largest.data(), sums.data(), {seed}, dlogits.rows()});
  CHECK(zeroth::testing::same_bits(logits.values(), problem.logits));
  auto const in_place = logits.template rows_in_place<T>();
  OnMachine<float> const scale{std::vector{seed / 4}};
  gpu::Seed const on_device{8, 0.5F, scale.data()};
  run(CrossEntropyBackward<T>{given, targets.data(), 0, largest.data(), sums.data(), on_device, in_place});
  CHECK(zeroth::testing::same_bits(logits.template values_in_place<T>(), dlogits.values()));
  return {losses.values(), mean.values(), dlogits.values()};
}

/// Against softmax in double.
template <class T>
void check_softmax(Problem const& problem, Outcome<T> const& outcome, float seed) {
  DoubleMatrix expected = matrix(problem.logits, problem.vocabulary);
  DoubleMatrix losses{1, problem.rows()};
  for (std::int64_t i = 0; i < problem.rows(); ++i) {
    auto const target = problem.targets[static_cast<std::size_t>(i)];
    expected.row(i).array() -= expected.row(i).maxCoeff();
    double const log_sum = std::log(expected.row(i).array().exp().sum());
    losses(0, i) = log_sum - expected(i, target);
    expected.row(i) = (expected.row(i).array() - log_sum).exp().matrix();
    expected(i, target) -= 1;
  }
  CHECK(error_of(outcome.losses, losses) < tolerance<float>);
  CHECK(static_cast<double>(outcome.mean.at(0)) == Approx(losses.mean()).epsilon(1e-6).margin(1e-9));
  auto const each = static_cast<double>(seed) / static_cast<double>(problem.rows());
  CHECK(error_of(outcome.dlogits, expected * each) < tolerance<T>);
}

template <class T>
void check_outcome(Problem const& problem, Place const& place, Place const& place_of_gradient) {
  CAPTURE(problem.vocabulary, place.stride, place.shift, place_of_gradient.stride, place_of_gradient.shift);
  float const seed = 8;
  check_softmax(problem, outcome_of<T>(problem, seed, place, place_of_gradient), seed);
}

/// Columns of the whole problem that a rank has, and then padding.
struct Part {
  std::int64_t first, count, padded;
};
std::vector<Part> parts_of(std::int64_t vocabulary, std::int64_t ranks) {
  auto const padded = round_up((vocabulary + ranks - 1) / ranks, 8);
  std::vector<Part> parts;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    auto const first = std::min(rank * padded, vocabulary);
    parts.push_back({first, std::min(padded, vocabulary - first), padded});
  }
  return parts;
}

/// A rank's columns, with NaN in the padding.
std::vector<float> logits_of(Problem const& problem, Part const& part) {
  auto logits = garbage<float>(problem.rows() * part.padded);
  for (std::int64_t i = 0; i < problem.rows(); ++i) {
    std::copy_n(problem.logits.begin() + i * problem.vocabulary + part.first, part.count,
                logits.begin() + i * part.padded);
  }
  return logits;
}

/// `values` of all ranks, element by element.
template <class Combine>
std::vector<float> combined(std::vector<std::vector<float>> const& values, Combine const& combine) {
  auto result = values.front();
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    std::ranges::transform(result, values[rank], result.begin(), combine);
  }
  return result;
}

/// The kernels for parts of the vocabulary, whose gradients are joined; the host reduces over ranks.
template <class T>
Outcome<T> outcome_of_parts(Problem const& problem, float seed, std::int64_t ranks) {
  auto const rows = problem.rows();
  OnMachine<std::int32_t> const targets{problem.targets};
  auto const parts = parts_of(problem.vocabulary, ranks);
  auto const with_logits = [&](Part const& part, auto const& function) {
    RowsOnMachine<float> const logits{logits_of(problem, part), part.padded, {part.padded}};
    auto given = logits.template rows<float const>();
    given.width = part.count;
    function(given);
  };
  std::vector<std::vector<float>> of_ranks, of_losses;
  for (auto const& part : parts) {
    with_logits(part, [&](auto const& logits) {
      OnMachine<float> const largest{garbage<float>(rows)};
      run(LargestOfPart{logits, largest.data()});
      of_ranks.push_back(largest.values());
    });
  }
  OnMachine<float> const largest{combined(of_ranks, [](float a, float b) { return std::fmax(a, b); })};
  of_ranks.clear();
  for (auto const& part : parts) {
    with_logits(part, [&](auto const& logits) {
      OnMachine<float> const sums{garbage<float>(rows)}, losses{garbage<float>(rows)};
      run(SumsOfPart{logits, targets.data(), static_cast<std::int32_t>(part.first), largest.data(), sums.data(),
                     losses.data()});
      of_ranks.push_back(sums.values());
      of_losses.push_back(losses.values());
    });
  }
  OnMachine<float> const sums{combined(of_ranks, std::plus{})}, losses{combined(of_losses, std::plus{})};
  OnMachine<float> const mean{garbage<float>(1)};
  run(MeanLoss{losses.data(), sums.data(), rows, mean.data()});
  Outcome<T> outcome{losses.values(), mean.values(), std::vector<T>(problem.logits.size())};
  auto const logarithms = sums.values();
  std::ranges::transform(outcome.losses, logarithms, outcome.losses.begin(),
                         [](float loss, float sum) { return loss + std::log(sum); });
  for (auto const& part : parts) {
    with_logits(part, [&](auto const& logits) {
      RowsOnMachine<T> const dlogits{garbage<T>(rows * part.padded), part.padded, {round_up(part.padded, 64)}};
      run(CrossEntropyBackward<T>{logits,
                                  targets.data(),
                                  static_cast<std::int32_t>(part.first),
                                  largest.data(),
                                  sums.data(),
                                  {seed},
                                  dlogits.rows()});
      auto const slopes = dlogits.values();
      for (std::int64_t i = 0; i < rows; ++i) {
        auto const row = slopes.begin() + i * part.padded;
        std::copy_n(row, part.count, outcome.dlogits.begin() + i * problem.vocabulary + part.first);
        CHECK(std::all_of(row + part.count, row + part.padded, [](T value) { return wide(value) == 0; }));
      }
    });
  }
  return outcome;
}

template <class T>
void check_parts(Problem const& problem, std::int64_t ranks) {
  CAPTURE(problem.vocabulary, ranks);
  check_softmax(problem, outcome_of_parts<T>(problem, 2, ranks), 2);
}

}  // namespace

TEST_CASE("the mean of equal losses is that loss, however many there are") {
  every_way();
  std::vector<float> const equal(1 << 16, 1.1F);  // whose sums in fp32 are rounded
  OnMachine<float> const losses{equal}, mean{garbage<float>(1)};
  run(MeanLoss{losses.data(), nullptr, std::ssize(equal), mean.data()});
  CHECK(mean.values().at(0) == 1.1F);
}

TEMPLATE_TEST_CASE("cross-entropy and its gradient are softmax's", "", float, zeroth::bf16, zeroth::fp16) {
  every_way();
  std::int64_t const vocabulary = GENERATE(1, 2, 7, 33, 256, 1031);
  auto const problem = random_problem(vocabulary < 100 ? 301 : 19, vocabulary);
  // As the model has them, as near as packs allow, and as no packs are possible: for rows, or for addresses.
  check_outcome<TestType>(problem, {round_up(vocabulary, 32)}, {round_up(vocabulary, 64)});
  check_outcome<TestType>(problem, {round_up(vocabulary, 8)}, {round_up(vocabulary, 8)});
  check_outcome<TestType>(problem, {vocabulary}, {vocabulary});
  check_outcome<TestType>(problem, {round_up(vocabulary, 8), 1}, {round_up(vocabulary, 8)});
  check_outcome<TestType>(problem, {round_up(vocabulary, 8), 3}, {round_up(vocabulary, 8), 3});
}

TEMPLATE_TEST_CASE("tensor ranks that divide the vocabulary compute its softmax", "", float, zeroth::bf16,
                   zeroth::fp16) {
  every_way();
  std::int64_t const ranks = GENERATE(1, 2, 3, 4);
  check_parts<TestType>(random_problem(19, 1031), ranks);
  check_parts<TestType>(random_problem(33, 17), ranks);  // the last of four ranks has only padding
  check_parts<TestType>(random_problem(5, 2), ranks);
}

TEST_CASE("a tensor rank may have no finite logit of a row, and a NaN of one rank is the row's loss") {
  every_way();
  auto problem = random_problem(3, 64);
  std::fill_n(problem.logits.begin(), 32, -std::numeric_limits<float>::infinity());  // row 0 of the first of two ranks
  problem.targets = {40, 3, 63};
  problem.logits[64 + 50] = std::numeric_limits<float>::quiet_NaN();
  auto const outcome = outcome_of_parts<float>(problem, 1, 2);
  CHECK(std::isfinite(outcome.losses.at(0)));
  CHECK(std::isnan(outcome.losses.at(1)));
  CHECK(std::isfinite(outcome.losses.at(2)));
  CHECK(outcome.dlogits.at(0) == 0);
  CHECK(std::isnan(outcome.dlogits.at(64)));
  CHECK(std::isfinite(outcome.dlogits.at(128)));
}

TEMPLATE_TEST_CASE("logits may be far from zero and from each other", "", float, zeroth::bf16) {
  every_way();
  std::int64_t const vocabulary = 1031;
  auto const check = [&](auto const& logit) {
    Problem problem{vocabulary, {}, {14}};
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      problem.logits.push_back(logit(v));
    }
    check_outcome<TestType>(problem, {1056}, {1088});
  };
  auto const noise = random_values<float>(vocabulary, 1);
  auto const near = [&](std::int64_t v) { return noise[static_cast<std::size_t>(v)]; };
  check([&](std::int64_t v) { return 1e4F + near(v); });               // at this size fp32 has three decimal places
  check([&](std::int64_t v) { return -1e4F + near(v); });              //
  check([&](std::int64_t v) { return v % 2 == 0 ? 1e4F : -1e4F; });    // half of them contribute nothing
  check([&](std::int64_t v) { return 200 * static_cast<float>(v); });  // each one makes all previous ones negligible
  check([&](std::int64_t v) { return -200 * static_cast<float>(v); });
}

TEST_CASE("a logit that is no number makes its row's loss and gradient none, and no other's") {
  every_way();
  float const bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  auto problem = random_problem(3, 1031);
  problem.logits[1031 + 700] = bad;
  auto const outcome = outcome_of<float>(problem, 1, {1056}, {1056});
  CHECK(std::isfinite(outcome.losses.at(0)));
  CHECK(std::isnan(outcome.losses.at(1)));
  CHECK(std::isfinite(outcome.losses.at(2)));
  CHECK(std::isnan(outcome.mean.at(0)));
  for (std::int64_t v = 0; v < 1031; ++v) {
    auto const at = [&](std::int64_t row) { return outcome.dlogits[static_cast<std::size_t>(row * 1031 + v)]; };
    if (!std::isfinite(at(0)) || std::isfinite(at(1)) || !std::isfinite(at(2))) {
      FAIL("at " << v);
    }
  }
}

TEMPLATE_TEST_CASE("cross-entropy has the same bits in every launch", "", float, zeroth::bf16) {
  auto const problem = random_problem(40, 1031);
  auto const of_way = [&](int way) {
    zeroth::testing::machine().choose(way);
    return outcome_of<TestType>(problem, 1, {1056}, {1088});
  };
  auto const first = of_way(0);
  for (int way = 0; way < zeroth::testing::machine().ways(); ++way) {
    auto const again = of_way(way);
    CHECK(zeroth::testing::same_bits(first.losses, again.losses));
    CHECK(zeroth::testing::same_bits(first.mean, again.mean));
    CHECK(zeroth::testing::same_bits(first.dlogits, again.dlogits));
  }
}

#ifndef ZEROTH_ON_GPU
TEST_CASE(
    "rows that begin at multiples of 16 bytes are moved in packs, but for their ends and what gradients overwrite") {
  every_way();
  std::int64_t const rows = 5;
  auto const problem = random_problem(rows, 1031);
  zeroth::cuda::accesses = {};
  static_cast<void>(outcome_of<zeroth::bf16>(problem, 1, {1056}, {1088}));
  // The gradient is computed separately and in place; its first 256 columns are moved one by one.
  CHECK(zeroth::cuda::accesses.packs == rows * (257 + 2 * 2 * 96));
  CHECK(zeroth::cuda::accesses.singles == rows * (3 + 2 * 2 * (256 + 7)));
}
#endif

}  // namespace gpt::gpu
