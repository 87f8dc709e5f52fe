// SPDX-License-Identifier: Apache-2.0
/// Integers, bits and predicates.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "support/ptx/forms.hpp"

namespace zeroth::testing::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// The integer type of twice the width.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                                std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

// Overflow wraps: arithmetic is unsigned, and at least as wide as that of the language.
template <class T>
T add(T a, T b) {
  return static_cast<T>(std::uint64_t{static_cast<Unsigned<T>>(a)} + static_cast<Unsigned<T>>(b));
}
template <class T>
T subtract(T a, T b) {
  return static_cast<T>(std::uint64_t{static_cast<Unsigned<T>>(a)} - static_cast<Unsigned<T>>(b));
}
template <class T>
T multiply_low(T a, T b) {
  return static_cast<T>(std::uint64_t{static_cast<Unsigned<T>>(a)} * static_cast<Unsigned<T>>(b));
}
template <class T>
T multiply_add(T a, T b, T c) {
  return add(multiply_low(a, b), c);
}
template <class T>
Wide<T> multiply_wide(T a, T b) {
  return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}
template <class T>
T negate(T a) {
  return subtract(T{0}, a);
}
template <class T>
T divide(T a, T b) {
  if (b == 0) {
    return static_cast<T>(~T{0});  // GPUs do not trap
  }
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) {
    return negate(a);
  }
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  return subtract(a, multiply_low(divide(a, b), b));
}
template <class T>
T smaller(T a, T b) {
  return std::min(a, b);
}
template <class T>
T larger(T a, T b) {
  return std::max(a, b);
}
template <class T>
T shift_left(T a, std::uint32_t by) {
  return by >= sizeof(T) * 8 ? T{0} : static_cast<T>(std::uint64_t{static_cast<Unsigned<T>>(a)} << by);
}
template <class T>
T shift_right(T a, std::uint32_t by) {
  constexpr std::uint32_t most = sizeof(T) * 8 - 1;
  if (by > most && !std::is_signed_v<T>) {
    return 0;
  }
  return static_cast<T>(a >> std::min(by, most));
}

template <class T>
T both_bits(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
T either_bits(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
T different_bits(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
T other_bits(T a) {
  return static_cast<T>(~a);
}
template <class T>
T copy(T a) {
  return a;
}
template <class T>
T choose(T a, T b, bool first) {
  return first ? a : b;
}

template <class T>
bool equal(T a, T b) {
  return a == b;
}
template <class T>
bool different(T a, T b) {
  return a != b;
}
template <class T>
bool less(T a, T b) {
  return a < b;
}
template <class T>
bool less_or_equal(T a, T b) {
  return a <= b;
}
template <class T>
bool greater(T a, T b) {
  return a > b;
}
template <class T>
bool greater_or_equal(T a, T b) {
  return a >= b;
}

bool both(bool a, bool b) { return a && b; }
bool either(bool a, bool b) { return a || b; }
bool different_predicates(bool a, bool b) { return a != b; }
bool opposite(bool a) { return !a; }
bool copy_predicate(bool a) { return a; }

/// Each of the four result bytes is one of the eight of `b` and `a`, or its sign.
std::uint32_t permute(std::uint32_t a, std::uint32_t b, std::uint32_t selectors) {
  std::uint64_t const bytes = std::uint64_t{b} << 32U | a;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    std::uint32_t const selector = selectors >> (4 * i);
    auto byte = static_cast<std::uint8_t>(bytes >> (8 * (selector & 7U)));
    if ((selector & 8U) != 0) {
      byte = (byte & 0x80U) != 0 ? 0xff : 0;
    }
    result |= std::uint32_t{byte} << (8 * i);
  }
  return result;
}

std::uint32_t extract(std::uint32_t a, std::uint32_t position, std::uint32_t length) {
  position &= 0xffU;
  length &= 0xffU;
  std::uint32_t const mask = length >= 32 ? ~0U : (1U << length) - 1;
  return position >= 32 ? 0 : a >> position & mask;
}

std::uint32_t insert(std::uint32_t a, std::uint32_t b, std::uint32_t position, std::uint32_t length) {
  position &= 0xffU;
  length &= 0xffU;
  std::uint32_t const mask = length >= 32 ? ~0U : (1U << length) - 1;
  return position >= 32 ? b : (b & ~(mask << position)) | (a & mask) << position;
}

/// For signed and unsigned numbers.
template <class T>
void add_number(Forms& forms, std::string const& type) {
  add_form<add<T>>(forms, "add." + type);
  add_form<subtract<T>>(forms, "sub." + type);
  add_form<multiply_low<T>>(forms, "mul.lo." + type);
  add_form<multiply_add<T>>(forms, "mad.lo." + type);
  add_form<divide<T>>(forms, "div." + type);
  add_form<remainder<T>>(forms, "rem." + type);
  add_form<smaller<T>>(forms, "min." + type);
  add_form<larger<T>>(forms, "max." + type);
  add_form<negate<T>>(forms, "neg." + type);
  add_form<shift_right<T>>(forms, "shr." + type);
  add_form<copy<T>>(forms, "mov." + type);
  add_form<choose<T>>(forms, "selp." + type);
  add_form<equal<T>>(forms, "setp.eq." + type);
  add_form<different<T>>(forms, "setp.ne." + type);
  add_form<less<T>>(forms, "setp.lt." + type);
  add_form<less_or_equal<T>>(forms, "setp.le." + type);
  add_form<greater<T>>(forms, "setp.gt." + type);
  add_form<greater_or_equal<T>>(forms, "setp.ge." + type);
  if constexpr (sizeof(T) < 8) {
    add_form<multiply_wide<T>>(forms, "mul.wide." + type);
  }
}

template <class T>
void add_bits(Forms& forms, std::string const& type) {
  add_form<both_bits<T>>(forms, "and." + type);
  add_form<either_bits<T>>(forms, "or." + type);
  add_form<different_bits<T>>(forms, "xor." + type);
  add_form<other_bits<T>>(forms, "not." + type);
  add_form<shift_left<T>>(forms, "shl." + type);
  add_form<shift_right<T>>(forms, "shr." + type);
  add_form<copy<T>>(forms, "mov." + type);
  add_form<choose<T>>(forms, "selp." + type);
  add_form<equal<T>>(forms, "setp.eq." + type);
  add_form<different<T>>(forms, "setp.ne." + type);
}

}  // namespace

void add_integer_forms(Forms& forms) {
  add_number<std::int16_t>(forms, "s16");
  add_number<std::int32_t>(forms, "s32");
  add_number<std::int64_t>(forms, "s64");
  add_number<std::uint16_t>(forms, "u16");
  add_number<std::uint32_t>(forms, "u32");
  add_number<std::uint64_t>(forms, "u64");
  add_bits<std::uint16_t>(forms, "b16");
  add_bits<std::uint32_t>(forms, "b32");
  add_bits<std::uint64_t>(forms, "b64");
  add_form<both>(forms, "and.pred");
  add_form<either>(forms, "or.pred");
  add_form<different_predicates>(forms, "xor.pred");
  add_form<opposite>(forms, "not.pred");
  add_form<copy_predicate>(forms, "mov.pred");
  add_form<permute>(forms, "prmt.b32");
  add_form<extract>(forms, "bfe.u32");
  add_form<insert>(forms, "bfi.b32");
  add_form<copy<std::uint64_t>>(forms, "cvta.to.global.u64");
}

}  // namespace zeroth::testing::ptx
