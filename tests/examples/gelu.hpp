// SPDX-License-Identifier: Apache-2.0
/// GELU in its tanh form, as it is defined.
#pragma once
#include <cmath>

namespace gpt::testing {

namespace detail {
inline double gelu_tanh(double u) { return std::tanh(std::sqrt(2 / std::acos(-1.0)) * (u + 0.044715 * u * u * u)); }
}  // namespace detail

[[nodiscard]] inline double gelu_of(double u) { return 0.5 * u * (1 + detail::gelu_tanh(u)); }
[[nodiscard]] inline double gelu_slope_of(double u) {
  double const t = detail::gelu_tanh(u);
  return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * u * u);
}

}  // namespace gpt::testing
