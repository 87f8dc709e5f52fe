// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/exact_sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace zeroth::optim {
namespace {

ExactSum sum_of(std::vector<double> const& values) {
  ExactSum sum;
  for (double const value : values) {
    sum += value;
  }
  return sum;
}

/// A sum in whole multiples of 2^-280, in bytes that carry only at the end.
class WholeSum {
 public:
  void add(double value, std::int64_t sign = 1) {
    int exponent = 0;
    auto left = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53)) * sign;
    int const position = exponent - 53 + 280;
    left *= std::int64_t{1} << (position % 8);  // 61 bits at most; then positions are multiples of a byte
    auto bits = left < 0 ? -left : left;
    for (auto at = static_cast<std::size_t>(position / 8); bits != 0; ++at, bits >>= 8U) {
      bytes_[at] += (left < 0 ? -1 : 1) * (bits & 0xff);
    }
  }
  /// The value in fp64, with an error of a few units in the last place.
  [[nodiscard]] double value() const {
    auto bytes = bytes_;
    for (std::size_t at = 0; at + 1 < bytes.size(); ++at) {
      std::int64_t const above = bytes[at] / 256;
      bytes[at] -= above * 256;
      bytes[at + 1] += above;
    }
    double sum = 0;
    for (std::size_t at = bytes.size(); at-- > 0;) {
      sum += std::ldexp(static_cast<double>(bytes[at]), 8 * static_cast<int>(at) - 280);
    }
    return sum;
  }

 private:
  std::array<std::int64_t, 64> bytes_{};
};

TEST_CASE("The value of an exact sum is that of a sum in whole numbers, subnormal ones included") {
  std::mt19937_64 random{5};
  for (int turn = 0; turn < 300; ++turn) {
    ExactSum sum;
    WholeSum whole;
    int const least = turn % 3 == 0 ? -149 : -20;
    int const most = turn % 3 == 1 ? 127 : least + 40;
    for (int i = 0; i < 1000; ++i) {
      auto const fraction = std::uniform_real_distribution<double>{-1, 1}(random);
      auto const exponent = least + static_cast<int>(random() % static_cast<unsigned>(most - least));
      auto const scaled = std::ldexp(fraction, exponent);
      double const value = turn % 3 == 0 ? static_cast<double>(static_cast<float>(scaled)) : scaled;
      sum += value;
      whole.add(value);
    }
    double const got = sum.value();
    whole.add(got, -1);
    CHECK(std::abs(whole.value()) <= std::abs(got) * 0x1p-51);
  }
}

TEST_CASE("An exact sum keeps what fp64 would lose") {
  CHECK(sum_of({0x1p150, 1, -0x1p150}).value() == 1);
  CHECK(sum_of({-0x1p150, 0x1p-150, 0x1p150}).value() == 0x1p-150);
  CHECK(sum_of({1, 0x1p-60, 0x1p-61}).value() == 1);  // rounded once, at the end
  CHECK(sum_of({1, 0x1p-60, -1}).value() == 0x1p-60);
  CHECK(sum_of({0.1, 0.2, -0.1, -0.2}).value() == 0);
  CHECK(sum_of({-3.5, 1}).value() == -2.5);
  CHECK(sum_of({-0x1p-149}).value() == -0x1p-149);
  CHECK(sum_of({}).value() == 0);
}

TEST_CASE("An exact sum does not depend on the order of numbers, nor on how ranks share them") {
  std::mt19937_64 random{4};
  std::vector<double> values(6000);
  for (auto& value : values) {
    value = std::ldexp(std::uniform_real_distribution<double>{-1, 1}(random), static_cast<int>(random() % 250) - 125);
  }
  double const expected = sum_of(values).value();
  for (std::size_t const ranks : {1U, 2U, 3U, 7U, 24U}) {
    std::ranges::shuffle(values, random);
    std::vector<ExactSum> of_ranks(ranks);
    for (std::size_t i = 0; i < values.size(); ++i) {
      of_ranks[i % ranks] += values[i];
    }
    // Adds them like an all-reduce in fp64.
    constexpr std::size_t numbers = sizeof(ExactSum) / sizeof(double);
    double total[numbers] = {};
    for (auto const& each : of_ranks) {
      double digits[numbers];
      std::memcpy(digits, &each, sizeof(each));
      for (std::size_t k = 0; k < numbers; ++k) {
        total[k] += digits[k];
      }
    }
    ExactSum sum;
    std::memcpy(static_cast<void*>(&sum), total, sizeof(sum));
    CHECK(sum.value() == expected);
  }
}

TEST_CASE("An exact sum of a million equal numbers carries") {
  ExactSum sum;
  for (int i = 0; i < 1 << 20; ++i) {
    sum += 0x1.fffffep127;
  }
  CHECK(sum.value() == std::ldexp(0x1.fffffep127, 20));
}

TEST_CASE("Numbers beyond the digits") {
  double const infinity = std::numeric_limits<double>::infinity();
  CHECK(sum_of({0x1p-161}).value() == 0);
  CHECK(sum_of({0x1.8p-160}).value() == 0x1p-160);
  CHECK(sum_of({std::numeric_limits<double>::denorm_min(), 1}).value() == 1);
  CHECK(sum_of({0x1.fffffffffffffp158}).value() == 0x1.fffffffffffffp158);
  CHECK(sum_of({0x1p159}).value() == infinity);
  CHECK(sum_of({-0x1p159, 5}).value() == -infinity);
  CHECK(sum_of({infinity, 1}).value() == infinity);
  CHECK(std::isnan(sum_of({infinity, -infinity}).value()));
  CHECK(std::isnan(sum_of({1, std::numeric_limits<double>::quiet_NaN(), 1}).value()));
}

}  // namespace
}  // namespace zeroth::optim
