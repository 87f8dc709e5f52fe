// SPDX-License-Identifier: Apache-2.0
#include "core/exact_math.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

#include "support/catch.hpp"

namespace zeroth {
namespace {

double relative_error(double got, double expected) { return std::fabs(got - expected) / std::fabs(expected); }

TEST_CASE("an exact power equals the repeated product") {
  CHECK(power(0.9, 0) == 1);
  CHECK(power(0.9, 1) == 0.9);
  CHECK(power(0.5, 20) == std::ldexp(1.0, -20));
  CHECK(power(0, 3) == 0);
  CHECK(power(1, 1'000'000'000'000) == 1);
  bool close = true;
  for (double const base : {0.9, 0.95, 0.999, 0.99999}) {
    for (std::int64_t exponent = 1; exponent < 10000; exponent += exponent / 7 + 1) {
      auto const n = static_cast<double>(exponent);
      double const expected = std::pow(base, n);
      close = close && std::fabs(power(base, exponent) - expected) <= (n + 1) * 0x1p-52 * expected + 1e-300;
    }
  }
  CHECK(close);
  CHECK(power(0.9, 1'000'000'000'000) == 0);
}

TEST_CASE("a logarithm is right to a few units in the last place") {
  CHECK(logarithm(1) == 0);
  CHECK(logarithm(2) == std::numbers::ln2);
  double worst = 0;
  for (int value = 2; value < 5000; ++value) {
    worst = std::max(worst, relative_error(logarithm(value), std::log(value)));
  }
  std::mt19937_64 random{3};
  std::uniform_real_distribution<double> exponents{-700, 700};
  for (int i = 0; i < 20000; ++i) {
    double const value = std::exp(exponents(random));
    worst = std::max(worst, relative_error(logarithm(value), std::log(value)));
  }
  CHECK(worst < 5e-15);  // at 1 ± e the sum of two terms cancels
  for (double const near_one : {1 - 1e-10, 1 + 1e-10, 1 + 1e-3}) {
    CHECK(relative_error(logarithm(near_one), std::log(near_one)) < 1e-15);
  }
}

TEST_CASE("points on a circle match sine and cosine, exactly at each quarter") {
  CHECK(turned(0).cosine == 1);
  CHECK(turned(0.25).sine == 1);
  CHECK(turned(0.25).cosine == 0);
  CHECK(turned(0.5).cosine == -1);
  CHECK(turned(0.75).sine == -1);
  CHECK(turned(1).cosine == 1);
  double worst = 0;
  for (int i = 0; i <= 10000; ++i) {
    double const x = i / 10000.0;
    auto const [cosine, sine] = turned(x);
    worst = std::max({worst, std::fabs(cosine - std::cos(2 * std::numbers::pi * x)),
                      std::fabs(sine - std::sin(2 * std::numbers::pi * x))});
  }
  CHECK(worst < 1e-15);
}

TEST_CASE("the raised cosine falls from exactly 1 to exactly 0") {
  CHECK(raised_cosine(0) == 1);
  CHECK(raised_cosine(1) == 0);
  CHECK(raised_cosine(0.5) == Approx(0.5).epsilon(1e-15));
  double worst = 0;
  double last = 1;
  bool falls = true;
  for (int i = 0; i <= 10000; ++i) {
    double const x = i / 10000.0;
    double const got = raised_cosine(x);
    worst = std::max(worst, std::fabs(got - (1 + std::cos(std::numbers::pi * x)) / 2));
    falls = falls && got <= last;
    last = got;
  }
  CHECK(worst < 4e-16);
  CHECK(falls);
}

}  // namespace
}  // namespace zeroth
