// SPDX-License-Identifier: Apache-2.0
/// Floating-point arithmetic. Compiled without contraction: a multiplication and an addition stay two operations.
#include <cfenv>
#include <cmath>
#include <limits>

#include "support/ptx/block.hpp"
#include "support/ptx/floats.hpp"
#include "support/ptx/forms.hpp"

namespace zeroth::testing::ptx {
namespace {

template <class T>
T add(T a, T b) {
  return canonical(a + b);
}
template <class T>
T subtract(T a, T b) {
  return canonical(a - b);
}
template <class T>
T multiply(T a, T b) {
  return canonical(a * b);
}
template <class T>
T divide(T a, T b) {
  return canonical(a / b);
}
template <class T>
T multiply_add(T a, T b, T c) {
  return canonical(std::fma(a, b, c));
}
template <class T>
T reciprocal(T a) {
  return canonical(T{1} / a);
}
template <class T>
T root(T a) {
  return canonical(std::sqrt(a));
}
template <class T>
T negate(T a) {
  return -a;
}
template <class T>
T magnitude(T a) {
  return std::fabs(a);
}
/// -0 is less than +0. If one argument is a NaN, returns the other one.
template <class T>
T smaller(T a, T b) {
  T const ordered = a < b || (a == b && std::signbit(a)) ? a : b;
  return canonical(std::isnan(b) ? a : ordered);
}
template <class T>
T larger(T a, T b) {
  T const ordered = a > b || (a == b && std::signbit(b)) ? a : b;
  return canonical(std::isnan(b) ? a : ordered);
}
template <class T>
T copy(T a) {
  return a;
}
template <class T>
T choose(T a, T b, bool first) {
  return first ? a : b;
}

// Comparisons with a NaN are false, except != and those whose names end in u.
template <class T>
bool equal(T a, T b) {
  return a == b;
}
template <class T>
bool different(T a, T b) {
  return a < b || a > b;
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
template <class T>
bool numbers(T a, T b) {
  return !std::isnan(a) && !std::isnan(b);
}
template <auto opposite>
struct Not;
template <class T, bool (*opposite)(T, T)>
struct Not<opposite> {
  static bool of(T a, T b) { return !opposite(a, b); }
};

template <class T>
void add_type(Forms& forms, std::string const& type) {
  for (std::string const rounding : {"", "rn."}) {
    add_form<add<T>>(forms, "add." + rounding + type);
    add_form<subtract<T>>(forms, "sub." + rounding + type);
    add_form<multiply<T>>(forms, "mul." + rounding + type);
  }
  add_form<divide<T>>(forms, "div.rn." + type);
  add_form<multiply_add<T>>(forms, "fma.rn." + type);
  add_form<reciprocal<T>>(forms, "rcp.rn." + type);
  add_form<root<T>>(forms, "sqrt.rn." + type);
  add_form<negate<T>>(forms, "neg." + type);
  add_form<magnitude<T>>(forms, "abs." + type);
  add_form<smaller<T>>(forms, "min." + type);
  add_form<larger<T>>(forms, "max." + type);
  add_form<copy<T>>(forms, "mov." + type);
  add_form<choose<T>>(forms, "selp." + type);
  add_form<equal<T>>(forms, "setp.eq." + type);
  add_form<different<T>>(forms, "setp.ne." + type);
  add_form<less<T>>(forms, "setp.lt." + type);
  add_form<less_or_equal<T>>(forms, "setp.le." + type);
  add_form<greater<T>>(forms, "setp.gt." + type);
  add_form<greater_or_equal<T>>(forms, "setp.ge." + type);
  add_form<numbers<T>>(forms, "setp.num." + type);
  add_form<Not<numbers<T>>::of>(forms, "setp.nan." + type);
  add_form<Not<different<T>>::of>(forms, "setp.equ." + type);
  add_form<Not<equal<T>>::of>(forms, "setp.neu." + type);
  add_form<Not<greater_or_equal<T>>::of>(forms, "setp.ltu." + type);
  add_form<Not<greater<T>>::of>(forms, "setp.leu." + type);
  add_form<Not<less_or_equal<T>>::of>(forms, "setp.gtu." + type);
  add_form<Not<less<T>>::of>(forms, "setp.geu." + type);
}

float power_of_two(float a) { return canonical(static_cast<float>(std::exp2(static_cast<double>(a)))); }
float without_subnormals(float a) {
  return std::fabs(a) < std::numeric_limits<float>::min() ? std::copysign(0.0F, a) : a;
}
float power_of_two_flushed(float a) { return without_subnormals(power_of_two(without_subnormals(a))); }

/// Adds an error that GPUs may make, the same for the same result. 1 does not change, since 2^0 is exact.
float off_by_some(float value, int most_ulps) {
  if (!std::isfinite(value) || std::fabs(value) < 2 * std::numeric_limits<float>::min() || value == 1) {
    return value;
  }
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const range = static_cast<std::uint32_t>(2 * most_ulps + 1);
  auto const off = (bits * 0x9e3779b1U >> 8U) % range;
  return std::bit_cast<float>(bits + off - static_cast<std::uint32_t>(most_ulps));
}

template <auto function>
void approximate(Warp& warp, Instruction const& instruction, Lanes lanes) {
  Each<function>::execute(warp, instruction, lanes);
  if (int const ulps = warp.block().launch.behaviour.approximate_ulps; ulps > 0) {
    std::byte* const to = warp.registers() + instruction.to[0];
    for_each_lane(lanes, [&](int lane) { set_value(to, lane, off_by_some(value_of<float>(to, lane), ulps)); });
  }
}

template <auto function>
void add_approximate(Forms& forms, std::string const& opcode) {
  forms[opcode] = Each<function>::form();
  forms[opcode].execute = &approximate<function>;
}

/// Not inlined, so that the compiler cannot move it out of the two calls that set the rounding.
__attribute__((noinline)) void multiply_add_lanes(Warp& warp, Instruction const& instruction, Lanes lanes) {
  Each<multiply_add<float>>::execute(warp, instruction, lanes);
}

void multiply_add_downwards(Warp& warp, Instruction const& instruction, Lanes lanes) {
  std::fesetround(FE_DOWNWARD);
  multiply_add_lanes(warp, instruction, lanes);
  std::fesetround(FE_TONEAREST);
}

}  // namespace

void add_float_forms(Forms& forms) {
  add_type<float>(forms, "f32");
  add_type<double>(forms, "f64");
  add_approximate<power_of_two>(forms, "ex2.approx.f32");
  add_approximate<power_of_two_flushed>(forms, "ex2.approx.ftz.f32");
  add_approximate<divide<float>>(forms, "div.approx.f32");
  forms["fma.rm.f32"] = Each<multiply_add<float>>::form();
  forms["fma.rm.f32"].execute = &multiply_add_downwards;
}

}  // namespace zeroth::testing::ptx
