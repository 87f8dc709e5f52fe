// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of elements and the order of sums, shared by the CPU's loops and the GPU kernels.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "zeroth/core/dtype.hpp"
#include "zeroth/optim/exact_sum.hpp"

namespace zeroth::device {

/// A plain assignment if the types are equal: compilers do not see that widening and rounding cancel out.
template <class To, class From>
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline To convert_element(From value) noexcept {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return from_float<To>(to_float(value));
  }
}

/// The result of an accumulation: added in fp32, rounded once.
template <class To, class From>
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline To add_element(To before, From value) noexcept {
  return from_float<To>(to_float(before) + to_float(value));
}

// ---- sums and maxima over ranks ----

/// The type in which elements of type T are added. Integers are unsigned, so that they wrap around.
template <class T>
using RankSumOf = std::conditional_t<Element<T>, float, T>;

template <class T>
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline RankSumOf<T> widen_for_sum(T value) noexcept {
  if constexpr (Element<T>) {
    return to_float(value);
  } else {
    return value;
  }
}

/// Whether `b` replaces `a` in a maximum, or else in a minimum. A NaN wins and stays.
template <bool largest, class T>
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline bool is_beyond(T a, T b) noexcept {
  bool const beyond = largest ? b > a : b < a;
  if constexpr (std::is_floating_point_v<T>) {
    return (beyond || b != b) && a == a;  // NOLINT(misc-redundant-expression): a NaN is not equal to itself
  } else {
    return beyond;
  }
}

template <class T>
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline T round_sum(RankSumOf<T> sum) noexcept {
  if constexpr (Element<T>) {
    return from_float<T>(sum);
  } else {
    return sum;
  }
}

/// Calls `function(std::type_identity<T>{})` with the type in which elements of `dtype` are added. Callers have checked
/// is_defined(Reduce::sum, dtype).
template <class F>
void with_summand(Dtype dtype, F&& function) {
  switch (dtype) {
    case Dtype::fp32: return function(std::type_identity<float>{});
    case Dtype::bf16: return function(std::type_identity<bf16>{});
    case Dtype::fp16: return function(std::type_identity<fp16>{});
    case Dtype::fp64: return function(std::type_identity<double>{});
    case Dtype::int32: return function(std::type_identity<std::uint32_t>{});
    case Dtype::int64: return function(std::type_identity<std::uint64_t>{});
    case Dtype::byte:
    case Dtype::int8: return function(std::type_identity<std::uint8_t>{});
    default: return;  // locations have no sum
  }
}

// ---- sums of many numbers ----
//
// Lane l adds the numbers l, l + lanes, l + 2 lanes, ... in that order. Then lanes are folded, halves onto halves: lane
// l takes lane l + lanes / 2, and so on. One order on every instruction set and device.

/// Lanes of a sum of squares, which covers sum_block_count elements (device/kernels.hpp).
inline constexpr int square_lanes = 32;

[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float add_square(float sum, float value) noexcept {
  return sum + value * value;
}

/// Calls `take(half)` for half = lanes / 2, lanes / 4, ..., 1. `lanes` is a power of two.
template <class Take>
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void fold_halves(int lanes, Take const& take) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    take(half);
  }
}

/// Folds all lanes on one thread. Lane 0 then holds the sum.
template <std::size_t lanes, class T>
[[gnu::always_inline]] inline T fold_lanes(T (&lane)[lanes]) {
  fold_halves(static_cast<int>(lanes), [&](int half) {
    for (int l = 0; l < half; ++l) {
      lane[l] += lane[l + half];
    }
  });
  return lane[0];
}

// ---- exact sums of sums of squares ----

/// Words of 64 bits that accumulate sums of squares, which are not negative. Word w is digit w of an ExactSum.
inline constexpr int exact_words = optim::ExactSum::digit_count - 1;

/// A sum of squares as an addend to one word: less than 2^55.
struct ExactPart {
  std::uint64_t bits;
  int word;
  bool finite;
};
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline ExactPart exact_part(float value) noexcept {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const biased = static_cast<int>((bits >> 23U) & 0xffU);
  auto const fraction = bits & 0x7fffffU;
  auto const mantissa = biased == 0 ? fraction : fraction | 0x800000U;
  int const position = (biased == 0 ? 1 : biased) - 127 - 23 - optim::ExactSum::lowest_exponent;  // the lowest bit's
  return {std::uint64_t{mantissa} << static_cast<unsigned>(position % optim::ExactSum::digit_bits),
          position / optim::ExactSum::digit_bits, biased != 0xff};
}

}  // namespace zeroth::device
