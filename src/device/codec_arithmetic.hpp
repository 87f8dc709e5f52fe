// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of codecs that encode blocks, the same on the CPU and on a GPU: single IEEE operations on fp32.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "device/kernels.hpp"
#include "zeroth/core/codec.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::device {

/// The largest integer of a codec.
[[nodiscard]] constexpr float largest_code(Codec codec) noexcept { return codec == Codec::int8 ? 127.0F : 7.0F; }

/// The bits of a magnitude, which are in the order of magnitudes; those of infinities and NaNs are the largest.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint32_t magnitude_bits(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

/// How the elements of a block are encoded.
struct BlockScale {
  float scale;    ///< NaN if an element is not finite. 0 below the normal numbers: the block decodes to zeros.
  float inverse;  ///< 1 / scale; 0 if the integers are 0.
  float limit;    ///< The largest integer; 0 if the integers are 0.
};

inline constexpr std::uint32_t infinity_bits = 0x7f800000U;

/// For a block with an infinity or a NaN: it decodes to NaN. Its zeros stay zeros, since padding is zeros and no later
/// step would write over a NaN there.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline BlockScale scale_of_nonfinite() noexcept {
  return {std::numeric_limits<float>::quiet_NaN(), 0x1p127F, 1};
}

/// `largest` are the largest magnitude_bits() of the block.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline BlockScale scale_of(Codec codec,
                                                                                std::uint32_t largest) noexcept {
  if (largest >= infinity_bits) {
    return scale_of_nonfinite();
  }
  float const scale = std::bit_cast<float>(largest) / largest_code(codec);
  return scale < 0x1p-126F ? BlockScale{0, 0, 0} : BlockScale{scale, 1 / scale, largest_code(codec)};
}

/// The scale of BlockScales::powers_of_two for elements of `dtype`: the power of two with which the largest integer has
/// seven bits. An integer above the limit becomes the limit.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline BlockScale power_of_two_scale(
    Dtype dtype, std::uint32_t largest) noexcept {
  if (largest >= infinity_bits) {
    return scale_of_nonfinite();
  }
  // Biased exponents: that of the scale, and of the smallest scale whose multiples the dtype has.
  std::uint32_t const smallest = dtype == Dtype::fp16 ? 127 - 24 : 1;
  std::uint32_t const of_largest = largest >> 23U;
  std::uint32_t const exponent = of_largest < smallest + 6 ? smallest : of_largest - 6;
  return {std::bit_cast<float>(exponent << 23U), std::bit_cast<float>((254 - exponent) << 23U), 127};
}

[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline BlockScale scale_of(Codec codec, BlockScales scales,
                                                                                Dtype dtype,
                                                                                std::uint32_t largest) noexcept {
  return scales == BlockScales::tight ? scale_of(codec, largest) : power_of_two_scale(dtype, largest);
}

/// The nearest integer, ties to even.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::int32_t encode_element(float value, float inverse,
                                                                                        float limit) noexcept {
  constexpr float to_integer = 0x1.8p23F;  // sums with it have no fractional bits
  float scaled = value * inverse;
  scaled = scaled < limit ? scaled : limit;  // NaN becomes the limit
  scaled = scaled > -limit ? scaled : -limit;
  return std::bit_cast<std::int32_t>(scaled + to_integer) - std::bit_cast<std::int32_t>(to_integer);
}

/// Two integers of `int4`, the first in the lower bits: those of elements i and i + 64 of a block share byte i.
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

// `sign`. The bits of a block of codec_block_count elements are: first, in 16 bits, the code of its magnitude and, from
// bit 9 on, one less than the number of elements that have it; elements after these are zeros, as padding is. Then the
// sign bits: bit k of byte j is that of element 16 k + j.

inline constexpr int sign_bytes = static_cast<int>(codec_block_count) / 8;
inline constexpr std::uint32_t nonfinite_code = 0x1ff, largest_code_of_signs = 0x1fd;

[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint32_t exponent_of_units(
    std::uint32_t largest) noexcept {
  return largest < (24U << 23U) ? 24 : largest >> 23U;
}

/// A magnitude as an integer below 2^24, in units that depend on the largest magnitude_bits() of the block. So the sum
/// over a block does not depend on the order of its terms.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint32_t units_of(float value,
                                                                                   std::uint32_t largest) noexcept {
  std::uint32_t const bits = magnitude_bits(value);
  bool const is_normal = bits >= 1U << 23U;
  std::uint32_t const mantissa = is_normal ? (bits & 0x7fffffU) | 1U << 23U : bits;
  std::uint32_t const shift = exponent_of_units(largest) - (is_normal ? bits >> 23U : 1);
  return shift < 32 ? mantissa >> shift : 0;
}

/// The mean of `count` magnitudes, rounded to a power of two or to 1.5 times one, as 9 bits: the exponent, and one bit
/// of the mantissa. 0 below the normal numbers: the block decodes to zeros.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint32_t code_of_magnitude(
    std::uint32_t units, std::int32_t count, std::uint32_t largest) noexcept {
  if (largest >= infinity_bits) {
    return nonfinite_code;
  }
  if (units == 0) {
    return 0;
  }
  float const unit = std::bit_cast<float>((exponent_of_units(largest) - 23) << 23U);
  float const mean = static_cast<float>(units) / static_cast<float>(count) * unit;
  std::uint32_t const code = (std::bit_cast<std::uint32_t>(mean) + (1U << 21U)) >> 22U;
  return code < 2 ? 0 : code < largest_code_of_signs ? code : largest_code_of_signs;
}

/// 0 for a block that decodes to zeros.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint16_t header_of_signs(std::uint32_t code,
                                                                                          std::int32_t count) noexcept {
  return code == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(code | static_cast<std::uint32_t>(count - 1) << 9U);
}
/// The number of elements that have the magnitude, counted from the first one; the rest are zeros.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::int32_t count_of_header(
    std::uint16_t header) noexcept {
  return header == 0 ? 0 : (header >> 9U) + 1;
}
/// NaN for a block that is not finite.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float magnitude_of_header(std::uint16_t header) noexcept {
  return std::bit_cast<float>((header & 0x1ffU) << 22U);
}

/// 0 for a NaN, whose sign bit processors and GPUs choose differently.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline std::uint32_t encode_sign(float value) noexcept {
  return value < 0 ? 1 : 0;
}

[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float decode_sign(std::uint32_t bit,
                                                                              float magnitude) noexcept {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | bit << 31U);
}

/// Factors that turn a gradient into the value to encode: see Encode::momentum.
struct MomentFactors {
  float momentum, gradient, scale;
  bool keeps_errors;
};
[[nodiscard]] ZEROTH_HOST_DEVICE inline MomentFactors factors_of(Encode const& args) noexcept {
  bool const scales = args.momentum != nullptr;
  return {args.momentum_factor, args.gradient_factor, scales ? args.scalars->gradient_scale : 1.0F,
          args.scalars != nullptr && args.scalars->skip};
}
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float first_moment(MomentFactors const& f, float momentum,
                                                                               float gradient) noexcept {
  return f.momentum * momentum + f.gradient * (f.scale * gradient);
}

[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float decode_element(std::int32_t code,
                                                                                 float scale) noexcept {
  // A zero selects another factor instead of skipping the multiplication, so that loops are vectorised.
  return static_cast<float>(code) * (code == 0 ? 0.0F : scale);
}

}  // namespace zeroth::device
