// SPDX-License-Identifier: Apache-2.0
/// ldmatrix and mma, by where the instruction set's description puts their elements.
#include <array>
#include <cmath>

#include "small_kernel.hpp"
#include "support/ptx/floats.hpp"

namespace zeroth::testing::ptx {
namespace {

using Catch::Contains;

/// Four matrices of 8 x 8: element e of `memory`, of 16 bits, is e.
std::string const numbers = R"(
    shl.b32 %r2, %r0, 4;
    shl.b32 %r3, %r0, 3;
    mov.u32 %r4, 0;
$fill:
    shl.b32 %r5, %r4, 1;
    add.s32 %r5, %r5, %r2;
    add.s32 %r6, %r3, %r4;
    cvt.u16.u32 %rs1, %r6;
    st.shared.u16 [%r5], %rs1;
    add.s32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, 8;
    @%p1 bra $fill;
    bar.sync 0;
)";

TEST_CASE("ldmatrix gives each lane two adjacent elements of every matrix") {
  for (int matrix = 0; matrix < 4; ++matrix) {
    auto const element = [&](int row, int column) {
      return static_cast<std::uint32_t>(matrix * 64 + row * 8 + column);
    };
    auto const take = "{%r10, %r11, %r12, %r13}, [%r2]; mov.u32 %r1, %r1" + std::to_string(matrix) + ";";
    auto const rows = results_of(numbers + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 " + take);
    auto const columns = results_of(numbers + "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 " + take);
    for (int lane = 0; lane < warp_lanes; ++lane) {
      int const g = lane / 4, t = lane % 4 * 2;
      CHECK(rows[static_cast<std::size_t>(lane)] == (element(g, t) | element(g, t + 1) << 16U));
      CHECK(columns[static_cast<std::size_t>(lane)] == (element(t, g) | element(t + 1, g) << 16U));
    }
  }
  CHECK_THAT(fault_of("mov.u32 %r1, 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, [8];"),
             Contains("not aligned"));
}

/// A, B and C of small whole numbers, and their product as lanes have it.
struct Product {
  std::array<std::array<int, 16>, 16> a{};
  std::array<std::array<int, 8>, 16> b{}, c{};

  Product() {
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 16; ++j) {
        a[i][j] = static_cast<int>((i * 5 + j * 3) % 11) - 5;
        b[i][j % 8] = static_cast<int>((i * 7 + j % 8 * 2) % 9) - 4;
        c[i][j % 8] = static_cast<int>((i + j % 8 * 4) % 13);
      }
    }
  }
  [[nodiscard]] float at(std::size_t row, std::size_t column) const {
    int sum = c[row][column];
    for (std::size_t k = 0; k < 16; ++k) {
      sum += a[row][k] * b[k][column];
    }
    return static_cast<float>(sum);
  }
};

/// The words of A (4), B (2) and C (4) in every lane, lane by lane.
template <std::uint32_t (*bits)(float)>
std::vector<std::uint32_t> fragments(Product const& p) {
  std::vector<std::uint32_t> words;
  auto const pair = [&](int low, int high) {
    words.push_back(bits(static_cast<float>(low)) | bits(static_cast<float>(high)) << 16U);
  };
  for (std::size_t lane = 0; lane < 32; ++lane) {
    std::size_t const group = lane / 4, in_group = lane % 4;
    for (std::size_t i = 0; i < 4; ++i) {
      std::size_t const row = i % 2 == 0 ? group : group + 8, column = in_group * 2 + (i < 2 ? 0 : 8);
      pair(p.a[row][column], p.a[row][column + 1]);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      std::size_t const row = in_group * 2 + i * 8;
      pair(p.b[row][group], p.b[row + 1][group]);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      auto const value = static_cast<float>(p.c[i < 2 ? group : group + 8][in_group * 2 + i % 2]);
      words.push_back(std::bit_cast<std::uint32_t>(value));
    }
  }
  return words;
}

std::string product(std::string const& type, int result) {
  std::string text = "mul.wide.u32 %rd2, %r0, 40; add.s64 %rd2, %rd0, %rd2;";
  for (int i = 0; i < 10; ++i) {
    text += "ld.global.u32 %r" + std::to_string(10 + i) + ", [%rd2+" + std::to_string(4 * i) + "];";
  }
  return text + "mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type + ".f32 {%f1, %f2, %f3, %f4}, " +
         "{%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16, %r17, %r18, %r19}; mov.b32 %r1, %f" + std::to_string(result) +
         ";";
}

TEST_CASE("mma multiplies matrices that are distributed over the lanes") {
  Product const p;
  for (int i = 0; i < 4; ++i) {
    auto const bf16 = results_of(product("bf16", i + 1), {.out = fragments<to_bf16_bits>(p)});
    auto const fp16 = results_of(product("f16", i + 1), {.out = fragments<to_fp16_bits>(p)});
    for (std::size_t lane = 0; lane < 32; ++lane) {
      float const expected = p.at(lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + static_cast<std::size_t>(i % 2));
      CHECK(std::bit_cast<float>(bf16[lane]) == expected);
      CHECK(std::bit_cast<float>(fp16[lane]) == expected);
    }
  }
}

TEST_CASE("sums of truncating tensor cores are never rounded up") {
  Product p;
  p.a = {};
  p.b = {};
  auto words = fragments<to_bf16_bits>(p);
  // Row 0 of A begins with 1 and 2^-8, column 0 of B with 1 and 3 * 2^-16, C with 0: 1 + 3 * 2^-24 is halfway between
  // two numbers, of which the larger is the even one.
  words[0] = to_bf16_bits(1.0F) | to_bf16_bits(0x1p-8F) << 16U;
  words[4] = to_bf16_bits(1.0F) | to_bf16_bits(0x1.8p-15F) << 16U;
  words[6] = 0;
  auto const nearest = results_of(product("bf16", 1), {.out = words});
  auto const truncated = results_of(product("bf16", 1), {.behaviour = {.tensors_truncate = true}, .out = words});
  CHECK(std::bit_cast<float>(nearest[0]) == 1 + 0x1p-22F);
  CHECK(std::bit_cast<float>(truncated[0]) == 1 + 0x1p-23F);
}

}  // namespace
}  // namespace zeroth::testing::ptx
