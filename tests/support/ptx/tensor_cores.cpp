// SPDX-License-Identifier: Apache-2.0
/// Products of small matrices whose elements are distributed over the lanes of a warp. Lane 4 g + t has rows g and g +
/// 8, and columns 2 t and 2 t + 1 (and those plus 8), of 16 by 16 elements; for B rows and columns are exchanged.
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "support/ptx/block.hpp"
#include "support/ptx/floats.hpp"
#include "support/ptx/forms.hpp"
#include "support/ptx/warp_forms.hpp"

namespace zeroth::testing::ptx {
namespace {

/// Lane l gives the address of row l % 8 of matrix l / 8, and gets two neighbours of each matrix.
template <bool transposed>
void load_matrix(Warp& warp, Instruction const& instruction, Lanes /*lanes*/) {
  constexpr int size = 8, matrices = 4;
  std::array<std::array<std::array<std::uint16_t, size>, size>, matrices> elements{};
  Addresses at{};
  for (int lane = 0; lane < warp_lanes; ++lane) {
    auto& row = elements[static_cast<std::size_t>(lane / size)][static_cast<std::size_t>(lane % size)];
    auto const address = at[static_cast<std::size_t>(lane)] = warp.address(instruction, 0, lane);
    auto const* from = warp.block().shared.read(address, sizeof(row), warp.thread_of(lane));
    std::memcpy(row.data(), from, sizeof(row));
  }
  if (warp.block().launch.behaviour.counts_traffic) {
    count_shared(warp.block().traffic, at, all_lanes, size * sizeof(std::uint16_t));  // a matrix at a time
  }
  for (std::size_t n = 0; n < matrices; ++n) {
    for (int lane = 0; lane < warp_lanes; ++lane) {
      auto const g = static_cast<std::size_t>(lane / 4), t = static_cast<std::size_t>(lane % 4 * 2);
      auto const& matrix = elements[n];
      std::uint32_t const low = transposed ? matrix[t][g] : matrix[g][t];
      std::uint32_t const high = transposed ? matrix[t + 1][g] : matrix[g][t + 1];
      set_value(warp.registers() + instruction.to[n], lane, high << 16U | low);
    }
  }
}

float rounded(double sum, bool truncate) {
  auto const nearest = static_cast<float>(sum);
  if (truncate && std::isfinite(nearest) && std::fabs(static_cast<double>(nearest)) > std::fabs(sum)) {
    return std::nextafter(nearest, 0.0F);
  }
  return canonical(nearest);
}

/// D = A B + C, with A of 16 by 16 and B of 16 by 8 elements. In fp64, products are exact, and sums nearly: GPUs sum in
/// an order and with a precision of their own.
template <float (*number)(std::uint32_t)>
void multiply(Warp& warp, Instruction const& instruction, Lanes /*lanes*/) {
  constexpr std::size_t rows = 16, columns = 8, depth = 16;
  std::array<std::array<double, depth>, rows> a{};
  std::array<std::array<double, columns>, depth> b{};
  std::array<std::array<double, columns>, rows> sums{};
  auto const slot = [&](std::size_t operand) { return warp.registers() + instruction.from[operand]; };
  for (int lane = 0; lane < warp_lanes; ++lane) {
    auto const g = static_cast<std::size_t>(lane / 4), t = static_cast<std::size_t>(lane % 4 * 2);
    auto const pair = [&](std::size_t operand, double& first, double& second) {
      auto const bits = value_of<std::uint32_t>(slot(operand), lane);
      first = static_cast<double>(number(bits & 0xffffU));
      second = static_cast<double>(number(bits >> 16U));
    };
    pair(0, a[g][t], a[g][t + 1]);
    pair(1, a[g + 8][t], a[g + 8][t + 1]);
    pair(2, a[g][t + 8], a[g][t + 9]);
    pair(3, a[g + 8][t + 8], a[g + 8][t + 9]);
    pair(4, b[t][g], b[t + 1][g]);
    pair(5, b[t + 8][g], b[t + 9][g]);
    for (std::size_t i = 0; i < 4; ++i) {
      sums[g + i / 2 * 8][t + i % 2] = static_cast<double>(value_of<float>(slot(6 + i), lane));
    }
  }
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t column = 0; column < columns; ++column) {
        sums[row][column] += a[row][k] * b[k][column];
      }
    }
  }
  bool const truncate = warp.block().launch.behaviour.tensors_truncate;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    auto const g = static_cast<std::size_t>(lane / 4), t = static_cast<std::size_t>(lane % 4 * 2);
    for (std::size_t i = 0; i < 4; ++i) {
      set_value(warp.registers() + instruction.to[i], lane, rounded(sums[g + i / 2 * 8][t + i % 2], truncate));
    }
  }
}

}  // namespace

Execute execute_load_matrix(std::string const& opcode) {
  if (opcode == "ldmatrix.sync.aligned.m8n8.x4.shared.b16") {
    return &load_matrix<false>;
  }
  if (opcode == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") {
    return &load_matrix<true>;
  }
  throw std::runtime_error{"PTX: " + opcode + " is not known"};
}

Execute execute_matrix_product(std::string const& opcode) {
  if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") {
    return &multiply<from_bf16_bits>;
  }
  if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") {
    return &multiply<from_fp16_bits>;
  }
  throw std::runtime_error{"PTX: " + opcode + " is not known"};
}

}  // namespace zeroth::testing::ptx
