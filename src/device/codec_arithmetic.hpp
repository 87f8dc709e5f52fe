// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of codecs that encode blocks, the same on the CPU and on a GPU: single IEEE operations on fp32.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "zeroth/core/codec.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::device {

/// The largest integer of a codec.
[[nodiscard]] constexpr float largest_code(Codec codec) noexcept { return codec == Codec::int8 ? 127.0F : 7.0F; }

/// The scale of a block. `largest` is its largest magnitude, and `poison` the sum of 0 times each element: 0, or NaN if
/// an element is not finite, and then the block decodes to NaN. Below the normal numbers the block decodes to zeros.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float scale_of(Codec codec, float largest,
                                                                           float poison) noexcept {
  float const scale = largest / largest_code(codec);
  return poison != poison ? std::numeric_limits<float>::quiet_NaN() : scale < 0x1p-126F ? 0.0F : scale;
}

/// The factor that encode_element() multiplies by; 0 for blocks that decode to zeros or NaN.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float inverse_of(float scale) noexcept {
  return scale > 0 ? 1 / scale : 0.0F;
}

/// The nearest integer, ties to even. With inverse 0 it is 0.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::int32_t encode_element(float value, float inverse,
                                                                                        float largest) noexcept {
  constexpr float to_integer = 0x1.8p23F;  // sums with it have no bits behind the point
  float scaled = inverse == 0 ? 0.0F : value * inverse;
  scaled = scaled > largest ? largest : scaled;
  scaled = scaled < -largest ? -largest : scaled;
  return std::bit_cast<std::int32_t>(scaled + to_integer) - std::bit_cast<std::int32_t>(to_integer);
}

/// Two integers of `int4`, the first in the lower half.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint8_t pair_of_codes(std::int32_t first,
                                                                                       std::int32_t second) noexcept {
  return static_cast<std::uint8_t>((first & 15) | ((second & 15) << 4));
}
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::int32_t first_code(std::uint8_t pair) noexcept {
  return static_cast<std::int32_t>((pair & 15) ^ 8) - 8;
}
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::int32_t second_code(std::uint8_t pair) noexcept {
  return static_cast<std::int32_t>((pair >> 4) ^ 8) - 8;
}

[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float decode_element(std::int32_t code,
                                                                                 float scale) noexcept {
  return static_cast<float>(code) * scale;
}

}  // namespace zeroth::device
