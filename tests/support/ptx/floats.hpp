// SPDX-License-Identifier: Apache-2.0
/// The floating-point formats of the GPU.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace zeroth::testing::ptx {

/// The NaN that GPU arithmetic returns.
[[nodiscard]] inline float canonical(float value) { return value != value ? std::bit_cast<float>(0x7fffffffU) : value; }
[[nodiscard]] inline double canonical(double value) {
  return value != value ? std::bit_cast<double>(0x7fffffffffffffffU) : value;
}

[[nodiscard]] inline float from_bf16_bits(std::uint32_t bits) { return std::bit_cast<float>(bits << 16U); }

[[nodiscard]] inline std::uint32_t to_bf16_bits(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t const rounded = (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
  return std::isnan(value) ? 0x7fffU : rounded;
}

[[nodiscard]] inline float from_fp16_bits(std::uint32_t bits) {
  // Moves exponent and mantissa to their places. The multiplication by 2^112, which is exact, corrects the exponent's
  // bias.
  float const magnitude = std::bit_cast<float>((bits & 0x7fffU) << 13U) * 0x1p112F;
  bool const finite = (bits & 0x7c00U) != 0x7c00U;
  std::uint32_t const pattern = finite ? std::bit_cast<std::uint32_t>(magnitude) : 0x7f800000U | (bits & 0x3ffU) << 13U;
  return std::bit_cast<float>((bits & 0x8000U) << 16U | pattern);
}

[[nodiscard]] inline std::uint32_t to_fp16_bits(float value) {
  if (std::isnan(value)) {
    return 0x7fffU;
  }
  auto const bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t const sign = bits >> 16U & 0x8000U, magnitude = bits & 0x7fffffffU;
  if (magnitude >= std::bit_cast<std::uint32_t>(65520.0F)) {
    return sign | 0x7c00U;
  }
  // The exponent, at least that of subnormals. 2^13 times its power of two has a unit in the last place that matches
  // fp16's: adding it rounds, to nearest even.
  std::uint32_t const least = 127 - 14;
  std::uint32_t const exponent = magnitude >> 23U < least ? least : magnitude >> 23U;
  std::uint32_t const large = (exponent + 13) << 23U;
  float const sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(large);
  return sign | (((exponent - least) << 10U) + (std::bit_cast<std::uint32_t>(sum) - large));
}

}  // namespace zeroth::testing::ptx
