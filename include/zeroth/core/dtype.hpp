// SPDX-License-Identifier: Apache-2.0
/// Element types: storage for bf16 and fp16, names, sizes, and conversions that round to nearest even on every device.
#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#if defined(__CUDACC__)
#define ZEROTH_HOST_DEVICE __host__ __device__
#else
#define ZEROTH_HOST_DEVICE
#endif

namespace zeroth {

/// Storage only; same layout as __nv_bfloat16, Eigen::bfloat16 and at::BFloat16.
struct bf16 {
  std::uint16_t bits;  ///< The upper half of an fp32.
};
/// Storage only; same layout as __half, Eigen::half and at::Half.
struct fp16 {
  std::uint16_t bits;  ///< IEEE 754 binary16.
};

/// A value and its location, in types of equal size: an element for Reduce::max_location and min_location. Has no
/// padding bytes.
template <class T, class Location>
struct alignas(sizeof(T) + sizeof(Location)) Located {
  static_assert(sizeof(T) == sizeof(Location));
  T value;            ///< The value that is compared.
  Location location;  ///< Set by the program: an index or a rank. Not compared.
};
using LocatedFp32 = Located<float, std::int32_t>;          ///< An element of Dtype::fp32_location.
using LocatedInt32 = Located<std::int32_t, std::int32_t>;  ///< An element of Dtype::int32_location.
using LocatedFp64 = Located<double, std::int64_t>;         ///< An element of Dtype::fp64_location.

/// Dtype of parameters, gradients and messages. A model's math uses the first three; those named `location` are Located
/// types. A byte is unsigned.
enum class Dtype : std::uint8_t {
  fp32,
  bf16,
  fp16,
  fp64,
  int32,
  int64,
  byte,
  fp32_location,
  int32_location,
  fp64_location,
  int8
};

/// Bytes of one element.
[[nodiscard]] constexpr std::int64_t bytes_of(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::fp64_location: return 16;
    case Dtype::fp64:
    case Dtype::int64:
    case Dtype::fp32_location:
    case Dtype::int32_location: return 8;
    case Dtype::fp32:
    case Dtype::int32: return 4;
    case Dtype::bf16:
    case Dtype::fp16: return 2;
    case Dtype::byte:
    case Dtype::int8: return 1;
  }
  return 0;
}

/// The name in messages, plans and files: "bf16".
[[nodiscard]] constexpr std::string_view name_of(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::fp32: return "fp32";
    case Dtype::bf16: return "bf16";
    case Dtype::fp16: return "fp16";
    case Dtype::fp64: return "fp64";
    case Dtype::int32: return "int32";
    case Dtype::int64: return "int64";
    case Dtype::byte: return "byte";
    case Dtype::int8: return "int8";
    case Dtype::fp32_location: return "fp32_location";
    case Dtype::int32_location: return "int32_location";
    case Dtype::fp64_location: return "fp64_location";
  }
  return "?";
}

/// The types that a model's math may use.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, bf16> || std::same_as<T, fp16>;
/// See GradientOf.
template <class G, class T>
concept SameOrFp32 = std::same_as<G, T> || std::same_as<G, float>;
/// Gradients are written in the type of the math, or in fp32.
template <class G, class T>
concept GradientOf = Element<G> && SameOrFp32<G, T>;

/// The Dtype of T.
template <Element T>
inline constexpr Dtype dtype_of = std::same_as<T, float> ? Dtype::fp32
                                                         : (std::same_as<T, bf16> ? Dtype::bf16 : Dtype::fp16);

// ---- conversions: branch-free where it matters, so that loops over them vectorise; the same bits everywhere ----

/// Returns the value itself, for code that is generic over element types.
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr float to_float(float value) noexcept { return value; }

/// Exact.
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr float to_float(bf16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}

/// Exact, including subnormals.
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr float to_float(fp16 value) noexcept {
  // Sign, then four zeros that the sign's copies leave when masked, then exponent and mantissa where fp32 has them.
  auto const extended = static_cast<std::uint32_t>(static_cast<std::int16_t>(value.bits));
  std::uint32_t const placed = (extended << 13U) & 0x8fffe000U;
  // Rebias by multiplication with 2^112: exact for normal and subnormal numbers alike.
  std::uint32_t const finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(placed) * 0x1p112F);
  std::uint32_t const special =
      (placed & 0x0f800000U) == 0x0f800000U ? 0x7f800000U : 0U;  // inf; NaN keeps its mantissa
  return std::bit_cast<float>(finite | special);
}

/// Rounds to nearest even. NaNs stay NaNs and keep their sign. Written so that compilers vectorise it well: selections
/// are on 32 bits, with one shift at the end.
template <Element T>
[[nodiscard]] ZEROTH_HOST_DEVICE constexpr T from_float(float value) noexcept {
  std::uint32_t const bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t const magnitude = bits & 0x7fffffffU;
  bool const nan = magnitude > 0x7f800000U;
  if constexpr (std::same_as<T, float>) {
    return value;
  } else if constexpr (std::same_as<T, bf16>) {
    std::uint32_t const to_nearest = 0x7fffU + ((bits >> 16U) & 1U);
    std::uint32_t const to_quiet = ~bits & 0x00400000U;
    return {static_cast<std::uint16_t>((bits + (nan ? to_quiet : to_nearest)) >> 16U)};
  } else {
    // 65520 and more round to 65536, whose bits are those of infinity.
    std::uint32_t const bounded = magnitude < 0x47800000U ? magnitude : 0x47800000U;
    // The power of two in the value, but at least 2^-14, below which fp16 is subnormal. Added to one 2^13 times as
    // large, the value is rounded by the fp32 adder to 10 binary digits after that power, and ends up in the lowest
    // bits.
    std::uint32_t const masked = bounded & 0x7f800000U;
    std::uint32_t const power = masked > 0x38800000U ? masked : 0x38800000U;
    std::uint32_t const large = power + (13U << 23U);
    float const sum = std::bit_cast<float>(bounded) + std::bit_cast<float>(large);
    std::uint32_t const finite = std::bit_cast<std::uint32_t>(sum) - large + ((power - 0x38800000U) >> 13U);
    std::uint32_t const result = nan ? 0x7e00U : finite;
    return {static_cast<std::uint16_t>(((bits & 0x80000000U) | (result << 16U)) >> 16U)};
  }
}

}  // namespace zeroth
