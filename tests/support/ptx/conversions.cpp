// SPDX-License-Identifier: Apache-2.0
/// Conversions between types. Registers of 16 bits hold values of 8 bits.
#include <cmath>

#include "support/ptx/floats.hpp"
#include "support/ptx/forms.hpp"

namespace zeroth::testing::ptx {
namespace {

template <class To, class From>
To convert(From value) {
  return static_cast<To>(value);
}

template <class To, class From>
To convert_float(From value) {
  return canonical(static_cast<To>(value));
}

std::int16_t extend_sign_of_byte(std::uint16_t value) { return static_cast<std::int8_t>(value); }

double with_sign(double sign, double value) { return std::copysign(value, sign); }

float saturate(float value) {
  float const at_least_zero = value > 0 ? value : 0.0F;  // NaN becomes zero
  return at_least_zero < 1 ? at_least_zero : 1.0F;
}

float widen_fp16(std::uint16_t bits) { return canonical(from_fp16_bits(bits)); }
std::uint32_t pack_bf16(float high, float low) { return to_bf16_bits(high) << 16U | to_bf16_bits(low); }
std::uint32_t pack_fp16(float high, float low) { return to_fp16_bits(high) << 16U | to_fp16_bits(low); }

template <class To>
void add_from_integers(Forms& forms, std::string const& to) {
  add_form<convert<To, std::int16_t>>(forms, "cvt." + to + ".s16");
  add_form<convert<To, std::int32_t>>(forms, "cvt." + to + ".s32");
  add_form<convert<To, std::int64_t>>(forms, "cvt." + to + ".s64");
  add_form<convert<To, std::uint16_t>>(forms, "cvt." + to + ".u16");
  add_form<convert<To, std::uint32_t>>(forms, "cvt." + to + ".u32");
  add_form<convert<To, std::uint64_t>>(forms, "cvt." + to + ".u64");
}

}  // namespace

void add_conversion_forms(Forms& forms) {
  add_from_integers<std::int16_t>(forms, "s16");
  add_from_integers<std::int32_t>(forms, "s32");
  add_from_integers<std::int64_t>(forms, "s64");
  add_from_integers<std::uint16_t>(forms, "u16");
  add_from_integers<std::uint32_t>(forms, "u32");
  add_from_integers<std::uint64_t>(forms, "u64");
  add_from_integers<float>(forms, "rn.f32");
  add_from_integers<double>(forms, "rn.f64");
  add_form<extend_sign_of_byte>(forms, "cvt.s16.s8");
  add_form<convert_float<double, float>>(forms, "cvt.f64.f32");
  add_form<convert_float<float, double>>(forms, "cvt.rn.f32.f64");
  add_form<convert<std::int64_t, double>>(forms, "cvt.rzi.s64.f64");
  add_form<with_sign>(forms, "copysign.f64");
  add_form<saturate>(forms, "cvt.sat.f32.f32");
  add_form<widen_fp16>(forms, "cvt.f32.f16");
  add_form<pack_bf16>(forms, "cvt.rn.bf16x2.f32");
  add_form<pack_fp16>(forms, "cvt.rn.f16x2.f32");
}

Forms const& forms() {
  static Forms const all = [] {
    Forms made;
    add_integer_forms(made);
    add_float_forms(made);
    add_conversion_forms(made);
    return made;
  }();
  return all;
}

}  // namespace zeroth::testing::ptx
