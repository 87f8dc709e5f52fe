// SPDX-License-Identifier: Apache-2.0
/// The results of arithmetic instructions.
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <utility>

#include "small_kernel.hpp"
#include "support/ptx/floats.hpp"

namespace zeroth::testing::ptx {
namespace {

std::string hex(float value) {
  std::ostringstream text;
  text << "0f" << std::hex << std::setw(8) << std::setfill('0') << std::bit_cast<std::uint32_t>(value);
  return text.str();
}

/// The bits that an instruction on fp32 numbers gives.
std::uint32_t bits_of(std::string const& opcode, std::vector<float> const& operands) {
  std::string text = opcode + " %f1";
  for (float const operand : operands) {
    text += ", " + hex(operand);
  }
  return result_of(text + "; mov.b32 %r1, %f1;");
}
float number_of(std::string const& opcode, std::vector<float> const& operands) {
  return std::bit_cast<float>(bits_of(opcode, operands));
}

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("whole numbers wrap, shift and divide as on a GPU") {
  for (auto const& [body, expected] : std::initializer_list<std::pair<std::string, std::uint32_t>>{
           {"add.s32 %r1, 2147483647, 1;", 0x80000000U},
           {"sub.s32 %r1, 0, 1;", 0xffffffffU},
           {"mul.lo.s32 %r1, 65537, 65536;", 65536},
           {"mad.lo.s32 %r1, -3, 5, 7;", static_cast<std::uint32_t>(-8)},
           {"div.s32 %r1, -7, 2;", static_cast<std::uint32_t>(-3)},
           {"div.u32 %r1, -7, 2;", 0x7ffffffcU},
           {"div.s32 %r1, 5, 0;", 0xffffffffU},
           {"div.s32 %r1, -2147483648, -1;", 0x80000000U},
           {"rem.u32 %r1, 17, 5;", 2},
           {"neg.s32 %r1, 5;", static_cast<std::uint32_t>(-5)},
           {"min.s32 %r1, -1, 1;", 0xffffffffU},
           {"min.u32 %r1, -1, 1;", 1},
           {"max.s32 %r1, -1, 1;", 1},
           {"shl.b32 %r1, 3, 31;", 0x80000000U},
           {"shl.b32 %r1, 3, 32;", 0},
           {"shr.u32 %r1, -1, 28;", 15},
           {"shr.u32 %r1, -1, 32;", 0},
           {"shr.s32 %r1, -8, 1;", static_cast<std::uint32_t>(-4)},
           {"shr.s32 %r1, -8, 99;", 0xffffffffU},
           {"and.b32 %r1, 12, 10;", 8},
           {"or.b32 %r1, 12, 10;", 14},
           {"xor.b32 %r1, 12, 10;", 6},
           {"not.b32 %r1, 12;", ~12U},
           {"prmt.b32 %r1, 0x33221100, 0x77665544, 0x7632;", 0x77663322U},
           {"prmt.b32 %r1, 0x33221180, 0, 0x8888;", 0xffffffffU},
           {"bfe.u32 %r1, 0x12345678, 8, 8;", 0x56},
           {"bfi.b32 %r1, 0xab, 0x12345678, 8, 8;", 0x1234ab78},
           {"bfi.b32 %r1, 0xabc, 0x12345678, 28, 8;", 0xc2345678U},
           {"bfi.b32 %r1, -1, 0x12345678, 4, 0;", 0x12345678},
           {"bfi.b32 %r1, -1, 0x12345678, 32, 4;", 0x12345678},
           {"mov.b16 %rs1, 0x8000; mul.wide.s16 %r1, %rs1, %rs1;", 0x40000000U},
           {"mov.b16 %rs1, -2; mul.wide.u16 %r1, %rs1, %rs1;", 0xfffc0004U},
           {"mov.b16 %rs1, -1; shr.u16 %rs2, %rs1, 4; cvt.u32.u16 %r1, %rs2;", 0xfff},
           {"mul.wide.s32 %rd2, -2, 3; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r1, %rd2;", 0xffffffffU},
           {"mov.b64 %rd2, {-2, 9}; cvt.s64.s32 %rd2, %rd2; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r1, %rd2;",
            0xffffffffU},
           {"mov.b64 %rd2, {7, 9}; mov.b64 {%r1, %r2}, %rd2; sub.s32 %r1, %r2, %r1;", 2},
           {"mov.b16 %rs1, 0xff80; cvt.s16.s8 %rs1, %rs1; cvt.s32.s16 %r1, %rs1;", static_cast<std::uint32_t>(-128)},
           {"setp.lt.s32 %p1, -1, 1; selp.b32 %r1, 5, 6, %p1;", 5},
           {"setp.lt.u32 %p1, -1, 1; selp.b32 %r1, 5, 6, %p1;", 6},
           {"mov.pred %p1, -1; mov.pred %p2, 0; and.pred %p3, %p1, %p2; selp.b32 %r1, 5, 6, %p3;", 6},
           {"mov.pred %p2, 0; not.pred %p3, %p2; selp.b32 %r1, 5, 6, %p3;", 5},
       }) {
    INFO(body);
    CHECK(result_of(body) == expected);
  }
}

TEST_CASE("fp32 follows IEEE 754, with the NaN of GPUs") {
  CHECK(number_of("add.rn.f32", {1, 0x1p-24F}) == 1.0F);  // a tie, to even
  CHECK(number_of("add.rn.f32", {1, 0x1.8p-24F}) == 1 + 0x1p-23F);
  CHECK(number_of("mul.rn.f32", {0x1p-126F, 0.5F}) == 0x1p-127F);  // a subnormal number
  CHECK(number_of("div.rn.f32", {1, 3}) == 1.0F / 3.0F);
  CHECK(number_of("sqrt.rn.f32", {2}) == std::sqrt(2.0F));
  CHECK(number_of("rcp.rn.f32", {3}) == 1.0F / 3.0F);
  CHECK(number_of("fma.rn.f32", {1 + 0x1p-12F, 1 + 0x1p-12F, -1 - 0x1p-11F}) == 0x1p-24F);  // rounded once
  CHECK(number_of("fma.rm.f32", {1, 0x1p-30F, 1}) == 1.0F);
  CHECK(number_of("fma.rm.f32", {-1, 0x1p-30F, -1}) == std::nextafter(-1.0F, -2.0F));
  CHECK(number_of("fma.rn.f32", {-1, 0x1p-30F, -1}) == -1.0F);  // rounded once
  CHECK(bits_of("sub.f32", {infinity, infinity}) == 0x7fffffffU);
  CHECK(bits_of("add.f32", {-nan, 1}) == 0x7fffffffU);
  CHECK(bits_of("min.f32", {0.0F, -0.0F}) == 0x80000000U);
  CHECK(bits_of("max.f32", {-0.0F, 0.0F}) == 0);
  CHECK(number_of("max.f32", {nan, -1}) == -1.0F);
  CHECK(number_of("min.f32", {-1, nan}) == -1.0F);
  CHECK(bits_of("max.f32", {nan, nan}) == 0x7fffffffU);
  CHECK(bits_of("neg.f32", {0}) == 0x80000000U);
  CHECK(number_of("ex2.approx.f32", {-3}) == 0.125F);
  CHECK(number_of("ex2.approx.f32", {-130}) == 0x1p-130F);
  CHECK(number_of("ex2.approx.ftz.f32", {-130}) == 0);
  CHECK(number_of("cvt.sat.f32.f32", {nan}) == 0);
  CHECK(number_of("cvt.sat.f32.f32", {7}) == 1);
  CHECK(number_of("cvt.sat.f32.f32", {0.25F}) == 0.25F);
}

TEST_CASE("comparisons handle unordered operands") {
  auto const holds = [](std::string const& comparison, float a, float b) {
    return result_of("setp." + comparison + ".f32 %p1, " + hex(a) + ", " + hex(b) + "; selp.b32 %r1, 1, 0, %p1;") == 1;
  };
  for (std::string const comparison : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    INFO(comparison);
    CHECK_FALSE(holds(comparison, nan, 1));
    CHECK(holds(comparison + "u", 1, nan));
    for (float const a : {1.0F, 2.0F, 3.0F}) {
      bool const expected = comparison == "eq"   ? a == 2
                            : comparison == "ne" ? a != 2
                            : comparison == "lt" ? a < 2
                            : comparison == "le" ? a <= 2
                            : comparison == "gt" ? a > 2
                                                 : a >= 2;
      CHECK(holds(comparison, a, 2) == expected);
      CHECK(holds(comparison + "u", a, 2) == expected);
    }
  }
  for (float const b : {2.0F, nan}) {
    CHECK(holds("num", 1, b) == !std::isnan(b));
    CHECK(holds("num", b, 1) == !std::isnan(b));
    CHECK(holds("nan", 1, b) == std::isnan(b));
  }
}

TEST_CASE("conversions round to nearest even") {
  CHECK(result_of("cvt.rn.bf16x2.f32 %r1, " + hex(1 + 0x1p-8F) + ", " + hex(1 + 0x3p-8F) + ";") == 0x3f803f82U);
  CHECK(result_of("cvt.rn.bf16x2.f32 %r1, " + hex(nan) + ", " + hex(0x1.ffp127F) + ";") == 0x7fff7f80U);
  CHECK(result_of("cvt.rn.f16x2.f32 %r1, " + hex(65519.996F) + ", " + hex(-65520) + ";") == 0x7bfffc00U);
  CHECK(result_of("cvt.rn.f16x2.f32 %r1, " + hex(0x1p-25F) + ", " + hex(0x3p-25F) + ";") == 0x00000002U);
  CHECK(result_of("mov.b16 %rs1, 0x0001; cvt.f32.f16 %f1, %rs1; mov.b32 %r1, %f1;") == 0x33800000U);  // 2^-24
  CHECK(result_of("cvt.rn.f32.s32 %f1, -16777217; mov.b32 %r1, %f1;") == std::bit_cast<std::uint32_t>(-16777216.0F));
  CHECK(result_of("mov.f64 %fd1, 0d3FF0000010000000; cvt.rn.f32.f64 %f1, %fd1; mov.b32 %r1, %f1;") == 0x3f800000U);
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {  // exact both ways; halfway, the even one
    float const number = from_fp16_bits(bits), next = from_fp16_bits(bits + 1);
    REQUIRE(to_fp16_bits(number) == bits);
    REQUIRE(to_fp16_bits(-number) == (bits | 0x8000U));
    float const middle = bits + 1 < 0x7c00 ? number + (next - number) / 2 : 65520.0F;
    REQUIRE(to_fp16_bits(middle) == bits + (bits & 1U));
    REQUIRE(to_fp16_bits(std::nextafter(middle, 0.0F)) == bits);
  }
}

TEST_CASE("approximations have the requested error, and the same error every time") {
  std::string const body =
      "cvt.rn.f32.u32 %f1, %r0; add.f32 %f1, %f1, 0f3F000000; ex2.approx.ftz.f32 %f1, %f1; "
      "mov.b32 %r1, %f1;";
  SmallLaunch const wrong{.behaviour = {.approximate_ulps = 2}};
  auto const exact = results_of(body), off = results_of(body, wrong);
  CHECK(off == results_of(body, wrong));
  CHECK(off != exact);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CHECK(std::abs(static_cast<int>(exact[i] - off[i])) <= 2);
  }
}

}  // namespace
}  // namespace zeroth::testing::ptx
