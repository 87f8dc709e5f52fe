// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <stdexcept>

#include "support/ptx/block.hpp"
#include "support/ptx/forms.hpp"
#include "support/ptx/warp_forms.hpp"

namespace zeroth::testing::ptx {
namespace {

/// Every lane gets the value of another lane, or keeps its own if there is none; the predicate tells which.
template <bool butterfly>
void shuffle(Warp& warp, Instruction const& instruction, Lanes /*lanes*/) {
  std::byte* const registers = warp.registers();
  auto const operand = [&](std::size_t n, int lane) {
    return value_of<std::uint32_t>(registers + instruction.from[n], lane);
  };
  std::array<std::uint32_t, warp_lanes> values{};
  for (int lane = 0; lane < warp_lanes; ++lane) {
    values[static_cast<std::size_t>(lane)] = operand(0, lane);
  }
  Lanes found = 0;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    if (operand(3, lane) != all_lanes) {
      throw Fault{"a shuffle of some lanes only"};
    }
    std::uint32_t const distance = operand(1, lane) & 31U, limits = operand(2, lane), segment = limits >> 8U & 31U;
    auto const mine = static_cast<std::uint32_t>(lane);
    std::uint32_t const last = (mine & segment) | (limits & 31U & ~segment);
    std::uint32_t const source = butterfly ? mine ^ distance : mine + distance;
    bool const there = source <= last;
    found |= Lanes{there} << lane;
    set_value(registers + instruction.to[0], lane, values[there ? source : mine]);
  }
  warp.set_predicate(instruction.to[1], all_lanes, found);
}

}  // namespace

Execute execute_shuffle(std::string const& opcode) {
  if (opcode == "shfl.sync.down.b32") {
    return &shuffle<false>;
  }
  if (opcode == "shfl.sync.bfly.b32") {
    return &shuffle<true>;
  }
  throw std::runtime_error{"PTX: " + opcode + " is not known"};
}

}  // namespace zeroth::testing::ptx
