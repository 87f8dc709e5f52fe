// SPDX-License-Identifier: Apache-2.0
/// Random numbers for kernels, and errors of results relative to the CPU's in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/machine.hpp"
#include "examples/random_batch.hpp"
#include "gpu/launch.hpp"
#include "zeroth/adapters/eigen.hpp"
#include "zeroth/core/dtype.hpp"

namespace gpt::testing {

using zeroth::testing::every_way;
using zeroth::testing::OnMachine;

using DoubleMatrix = zeroth::Matrix<double>;

/// Tolerance relative to the largest value.
template <class T>
inline constexpr double tolerance = 1e-5;
template <>
inline constexpr double tolerance<zeroth::bf16> = 0x1p-8;
template <>
inline constexpr double tolerance<zeroth::fp16> = 0x1p-10;

/// Normally distributed numbers, rounded to T.
template <class T>
[[nodiscard]] std::vector<T> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<T> values(static_cast<std::size_t>(count));
  std::ranges::generate(values, [&] { return zeroth::from_float<T>(normal(random)); });
  return values;
}

/// NaN in every type.
template <class T>
[[nodiscard]] std::vector<T> garbage(std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::memset(static_cast<void*>(values.data()), 0xff, values.size() * sizeof(T));
  return values;
}

/// Rounds `values` to T.
template <class T, class Values>
[[nodiscard]] std::vector<T> rounded(Values& values) {
  std::vector<T> narrow;
  for (auto& value : values) {
    narrow.push_back(zeroth::from_float<T>(static_cast<float>(value)));
    value = static_cast<double>(zeroth::to_float(narrow.back()));
  }
  return narrow;
}

[[nodiscard]] inline double wide(double value) { return value; }
template <zeroth::Element T>
[[nodiscard]] double wide(T value) {
  return static_cast<double>(zeroth::to_float(value));
}

template <class Values>
[[nodiscard]] DoubleMatrix matrix(Values const& values, std::int64_t columns) {
  DoubleMatrix result{std::ssize(values) / columns, columns};
  std::ranges::transform(values, result.data(), [](auto value) { return wide(value); });
  return result;
}

/// The largest difference, relative to the largest value. Infinite if a result is not a number.
template <class T, class Derived>
[[nodiscard]] double error_of(std::vector<T> const& values, Eigen::MatrixBase<Derived> const& expected) {
  DoubleMatrix const difference = matrix(values, expected.cols()) - expected;
  double const largest = std::max(expected.cwiseAbs().maxCoeff(), 1e-3);
  return difference.allFinite() ? difference.cwiseAbs().maxCoeff() / largest : HUGE_VAL;
}

template <class Body>
void run(Body const& body) {
  REQUIRE(gpu::launch(zeroth::testing::machine().stream(), body, body.work()) == cudaSuccess);
}

}  // namespace gpt::testing
