// SPDX-License-Identifier: Apache-2.0
/// Functions of fp64 that use only IEEE additions, multiplications and divisions. Every compiler and device computes
/// the same bits, which no libm promises.
#pragma once
#include <bit>
#include <cstdint>
#include <numbers>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// base^exponent by repeated squaring, within `exponent` units in the last place. `exponent` is not negative.
[[nodiscard]] ZEROTH_HOST_DEVICE inline double power(double base, std::int64_t exponent) noexcept {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) {
      result *= base;
    }
    base *= base;
  }
  return result;
}

/// The natural logarithm of a normal positive number, within a few units in the last place.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline double logarithm(double value) noexcept {
  // value = 2^exponent * mantissa with a mantissa between sqrt(1/2) and sqrt(2).
  auto const bits = std::bit_cast<std::uint64_t>(value);
  auto exponent = static_cast<int>(bits >> 52U) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffU) | 0x3ff0000000000000U);
  bool const is_large = mantissa > std::numbers::sqrt2;  // without a branch, so that loops become vector code
  mantissa *= is_large ? 0.5 : 1.0;
  exponent += is_large ? 1 : 0;
  // log m = 2 artanh s = 2 (s + s^3 / 3 + s^5 / 5 + ...), where s^2 < 0.0295.
  double const s = (mantissa - 1) / (mantissa + 1);
  double const square = s * s;
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) {
    sum = sum * square + 1.0 / n;
  }
  return exponent * std::numbers::ln2 + 2 * s * sum;
}

/// The sine of an angle between -pi / 4 and pi / 4.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline double small_sine(double angle) noexcept {
  double const square = angle * angle;
  double series = 1;  // sin a = a (1 - a^2 / (2 3) (1 - a^2 / (4 5) (1 - ...)))
  for (int n = 18; n >= 2; n -= 2) {
    series = 1 - series * square / (n * (n + 1));
  }
  return angle * series;
}

/// The cosine of an angle between -pi / 4 and pi / 4.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline double small_cosine(double angle) noexcept {
  double const square = angle * angle;
  double series = 1;
  for (int n = 17; n >= 1; n -= 2) {
    series = 1 - series * square / (n * (n + 1));
  }
  return series;
}

/// A point on the unit circle.
struct OnCircle {
  double cosine = 1, sine = 0;
};

/// cos(2 pi x) and sin(2 pi x) for x in [0, 1].
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline OnCircle turned(double x) noexcept {
  auto const quarters =
      static_cast<int>(4 * x + 0.5);  // NOLINT(bugprone-incorrect-roundings): any quarter near it will do
  double const angle = 2 * std::numbers::pi * (x - quarters / 4.0);
  // Each quarter turns (x, y) into (-y, x).
  double const x_sign = 1 - ((quarters + 1) & 2), y_sign = 1 - (quarters & 2);
  double const cosine = small_cosine(angle), sine = small_sine(angle);
  bool const is_odd = (quarters & 1) != 0;
  return {x_sign * (is_odd ? sine : cosine), y_sign * (is_odd ? cosine : sine)};
}

/// (1 + cos(pi x)) / 2 for x in [0, 1]. Exactly 1 at x = 0 and 0 at x = 1.
[[nodiscard]] ZEROTH_HOST_DEVICE inline double raised_cosine(double x) noexcept {
  double const sine = small_sine(std::numbers::pi / 2 * (x < 0.5 ? x : 1 - x));
  return x < 0.5 ? 1 - sine * sine : sine * sine;
}

}  // namespace zeroth
