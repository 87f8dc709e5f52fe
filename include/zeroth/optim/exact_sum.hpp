// SPDX-License-Identifier: Apache-2.0
/// A sum that does not depend on the order of its terms, so that it is the same on any number of ranks.
#pragma once
#include <bit>
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth::optim {

/// A fixed-point sum, from 2^-160 up to 2^159. Digit k counts multiples of 2^(32 k - 160), and is a whole number in a
/// double. So ranks can sum digits in fp64, in any order, without rounding. Bits of a term below 2^-160 are truncated;
/// a term of 2^159 or more counts as infinite. An infinity or a NaN makes the sum infinite or NaN. Exact for up to 2^19
/// ranks. The idea is Kulisch's long accumulator (Computer Arithmetic and Validity, 2008).
class ExactSum {
 public:
  static constexpr int digit_count = 10;        ///< Digits of a sum.
  static constexpr int digit_bits = 32;         ///< Bits of a digit.
  static constexpr int lowest_exponent = -160;  ///< The lowest digit counts multiples of 2 to this power.

  /// The sum is 0.
  ExactSum() = default;
  /// The sum is `value`.
  ZEROTH_HOST_DEVICE ExactSum(double value) noexcept { add(value); }  // NOLINT: implicit
  /// Adds a number, exactly.
  ZEROTH_HOST_DEVICE ExactSum& operator+=(double value) noexcept {
    add(value);
    return *this;
  }
  /// Adds another sum, exactly.
  ZEROTH_HOST_DEVICE ExactSum& operator+=(ExactSum const& other) noexcept {
    for (int k = 0; k < digit_count; ++k) {
      digits_[k] += other.digits_[k];
    }
    carry();
    return *this;
  }

  /// Adds `part` times 2^(32 digit - 160). Call it at most 2^20 times before a carry().
  ZEROTH_HOST_DEVICE void add_at(int digit, std::uint64_t part) noexcept {
    bool const highest = digit == digit_count - 1;
    digits_[digit] += static_cast<double>(highest ? part : part & low_bits);
    digits_[highest ? digit : digit + 1] += highest ? 0.0 : static_cast<double>(part >> digit_bits);
  }
  /// Normalises all digits except the highest to whole numbers from 0 to 2^32 - 1.
  ZEROTH_HOST_DEVICE void carry() noexcept {
    for (int k = 0; k + 1 < digit_count; ++k) {
      auto const digit = static_cast<std::int64_t>(digits_[k]);
      auto const above = digit >> digit_bits;  // rounds down
      digits_[k] = static_cast<double>(digit - above * (std::int64_t{1} << digit_bits));
      digits_[k + 1] += static_cast<double>(above);
    }
  }
  /// Adds an infinity or a NaN.
  ZEROTH_HOST_DEVICE void add_nonfinite(double value) noexcept { digits_[digit_count - 1] += value; }

  /// The sum, rounded to fp64 with an error of at most two units in the last place. Does not depend on the order of the
  /// terms.
  [[nodiscard]] ZEROTH_HOST_DEVICE double value() const noexcept {
    ExactSum sum = *this;
    sum.carry();
    double const top = sum.digits_[digit_count - 1];
    if (!(top - top == 0)) {  // NOLINT(misc-redundant-expression): NaN or infinite
      return top;
    }
    bool const negative = top < 0;
    if (negative) {  // so that no digit takes back what a higher one has
      for (auto& digit : sum.digits_) {
        digit = -digit;
      }
      sum.carry();
    }
    double result = 0;
    for (int k = digit_count - 1; k >= 0; --k) {
      result += sum.digits_[k] * weight_of(k);
    }
    return negative ? -result : result;
  }
  /// Whether the sums have the same value().
  friend ZEROTH_HOST_DEVICE bool operator==(ExactSum const& a, ExactSum const& b) noexcept {
    return a.value() == b.value();
  }

 private:
  static constexpr std::uint64_t low_bits = 0xffffffffU;
  static constexpr double base = 4294967296.0;

  [[nodiscard]] static ZEROTH_HOST_DEVICE double weight_of(int digit) noexcept {
    return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + lowest_exponent + digit_bits * digit) << 52U);
  }

  ZEROTH_HOST_DEVICE void add(double value) noexcept {
    auto const bits = std::bit_cast<std::uint64_t>(value);
    auto const biased = static_cast<int>((bits >> 52U) & 0x7ffU);
    if (biased == 0x7ff || biased - 1023 >= lowest_exponent + digit_bits * digit_count - 1) {
      constexpr double infinity = std::bit_cast<double>(std::uint64_t{0x7ff} << 52U);
      return add_nonfinite(biased == 0x7ff ? value : value < 0 ? -infinity : infinity);
    }
    auto const mantissa = (bits & 0xfffffffffffffU) | (std::uint64_t{1} << 52U);
    int const position = biased - 1023 - 52 - lowest_exponent;  // of the lowest bit
    if (biased == 0 || position <= -53) {
      return;  // zero, or all of it is below the lowest digit
    }
    auto const kept = position < 0 ? mantissa >> static_cast<unsigned>(-position) : mantissa;
    int const first = position < 0 ? 0 : position / digit_bits;
    auto const shift = position < 0 ? 0U : static_cast<unsigned>(position % digit_bits);
    double const sign = (bits >> 63U) != 0 ? -1 : 1;
    auto const low = kept << shift;
    auto const high = shift == 0 ? 0 : kept >> (64U - shift);
    bool full = false;
    auto const take = [&](int digit, std::uint64_t part) {
      if (part != 0) {
        digits_[digit] += sign * static_cast<double>(part);
        full = full || digits_[digit] > most || digits_[digit] < -most;
      }
    };
    take(first, low & low_bits);
    take(first + 1, low >> digit_bits);
    take(first + 2, high);
    if (full) {
      carry();
    }
  }

  static constexpr double most = base * 2;  // from here on a digit is carried before more is added

  double digits_[digit_count] = {};
};

}  // namespace zeroth::optim
