// SPDX-License-Identifier: Apache-2.0
/// The data of both programs of docs/tutorial.md: rows of numbers, to be output in reverse order.
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <random>

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int width = 16, hidden = 64, steps = 200;

/// Samples [first, first + count) of an endless stream, a row each.
inline Matrix samples(std::int64_t first, std::int64_t count) {
  Matrix rows(count, width);
  for (auto row : rows.rowwise()) {
    std::mt19937 random(static_cast<unsigned>(first++));
    for (float& x : row) {
      x = std::uniform_real_distribution<float>{-1, 1}(random);
    }
  }
  return rows;
}

/// The initial value of element `index` of a weight.
inline float start(std::int64_t index) {
  std::mt19937 random(static_cast<unsigned>(index) + 1'000'000'000U);
  return std::uniform_real_distribution<float>{-0.25F, 0.25F}(random);
}
