// SPDX-License-Identifier: Apache-2.0
#include "zeroth/core/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"

namespace zeroth {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A 16-bit format, straight from its definition.
struct Format {
  int exponent_bits, mantissa_bits;

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int infinity_bits() const { return ((1 << exponent_bits) - 1) << mantissa_bits; }

  /// The value of `bits`, which have no sign and are infinity at most.
  [[nodiscard]] double value(int bits) const {
    int const exponent = bits >> mantissa_bits;
    int const mantissa = bits & ((1 << mantissa_bits) - 1);
    if (bits == infinity_bits()) {
      return infinity;
    }
    return exponent == 0 ? std::ldexp(mantissa, 1 - bias() - mantissa_bits)
                         : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias() - mantissa_bits);
  }

  /// Nearest, ties to even, by search in all values.
  [[nodiscard]] int nearest(double magnitude) const {
    int low = 0, high = infinity_bits();
    while (high - low > 1) {
      int const middle = (low + high) / 2;
      (value(middle) <= magnitude ? low : high) = middle;
    }
    // For rounding, the largest finite value is followed by the value that would come next without infinity.
    double const above = high == infinity_bits() ? 2 * value(low) - value(low - 1) : value(high);
    double const to_low = magnitude - value(low), to_high = above - magnitude;
    bool const up = to_high < to_low || (to_high == to_low && low % 2 == 1);
    return std::isinf(magnitude) || up ? high : low;
  }
};

constexpr Format format_of(bf16) { return {8, 7}; }
constexpr Format format_of(fp16) { return {5, 10}; }

template <class T>
bool rounds_right(float value) {
  auto const bits = from_float<T>(value).bits;
  int const sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    return (bits & 0x7fff) > format_of(T{}).infinity_bits() && (bits & 0x8000) == sign;
  }
  return bits == (format_of(T{}).nearest(std::fabs(static_cast<double>(value))) | sign);
}

TEMPLATE_TEST_CASE("all 65536 values of a 16-bit type widen exactly", "", bf16, fp16) {
  auto const format = format_of(TestType{});
  int wrong = 0;
  for (int bits = 0; bits < 65536; ++bits) {
    float const value = to_float(TestType{static_cast<std::uint16_t>(bits)});
    int const magnitude = bits & 0x7fff;
    bool const negative = bits >= 0x8000;
    bool const right = magnitude > format.infinity_bits()
                           ? std::isnan(value)
                           : static_cast<double>(std::fabs(value)) == format.value(magnitude);
    wrong += right && std::signbit(value) == negative ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("all values of a 16-bit type survive widening and rounding", "", bf16, fp16) {
  int wrong = 0;
  for (int bits = 0; bits < 65536; ++bits) {
    TestType const value{static_cast<std::uint16_t>(bits)};
    auto const back = from_float<TestType>(to_float(value));
    bool const nan = (bits & 0x7fff) > format_of(TestType{}).infinity_bits();
    wrong += nan ? (std::isnan(to_float(back)) ? 0 : 1) : (back.bits == bits ? 0 : 1);
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("rounding is to nearest even at every midpoint and beside it", "", bf16, fp16) {
  auto const format = format_of(TestType{});
  int wrong = 0;
  for (int bits = 0; bits < format.infinity_bits(); ++bits) {
    double const here = format.value(bits);
    double const next = bits + 1 < format.infinity_bits() ? format.value(bits + 1) : 2 * here - format.value(bits - 1);
    auto const middle = static_cast<float>((here + next) / 2);
    for (float const value : {static_cast<float>(here), middle, std::nextafter(middle, 0.0F),
                              std::nextafter(middle, std::numeric_limits<float>::infinity())}) {
      wrong += rounds_right<TestType>(value) && rounds_right<TestType>(-value) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("rounding is right for every 4099th pattern of a float", "", bf16, fp16) {
  int wrong = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32U); bits += 4099) {
    wrong += rounds_right<TestType>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("known values convert exactly") {
  CHECK(from_float<fp16>(65504.0F).bits == 0x7bff);
  CHECK(from_float<fp16>(65519.996F).bits == 0x7bff);
  CHECK(from_float<fp16>(65520.0F).bits == 0x7c00);
  CHECK(from_float<fp16>(1e30F).bits == 0x7c00);
  CHECK(from_float<fp16>(-0.0F).bits == 0x8000);
  CHECK(from_float<fp16>(0x1p-24F).bits == 0x0001);
  CHECK(from_float<fp16>(0x1p-25F).bits == 0x0000);
  CHECK(from_float<fp16>(0x1.8p-24F).bits == 0x0002);
  CHECK(from_float<bf16>(1.0F).bits == 0x3f80);
  CHECK(from_float<bf16>(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(from_float<bf16>(0x1.01p0F).bits == 0x3f80);  // tie, to even
  CHECK(from_float<bf16>(0x1.03p0F).bits == 0x3f82);
  CHECK(from_float<float>(0.1F) == 0.1F);
  static_assert(from_float<fp16>(1e30F).bits == 0x7c00);
  static_assert(to_float(fp16{0x3c00}) == 1.0F);
  static_assert(to_float(from_float<bf16>(-2.5F)) == -2.5F);
}

TEST_CASE("dtypes have their sizes and names") {
  CHECK(bytes_of(Dtype::fp32) == 4);
  CHECK(bytes_of(Dtype::bf16) == 2);
  CHECK(bytes_of(Dtype::fp16) == 2);
  CHECK(bytes_of(Dtype::fp64) == 8);
  CHECK(bytes_of(Dtype::int32) == 4);
  CHECK(bytes_of(Dtype::int64) == 8);
  CHECK(bytes_of(Dtype::byte) == 1);
  CHECK(zeroth::name_of(Dtype::bf16) == "bf16");
  CHECK(zeroth::name_of(Dtype::int64) == "int64");
}

}  // namespace
}  // namespace zeroth
