// SPDX-License-Identifier: Apache-2.0
/// A kernel ready to run: instructions whose operands are places in the registers of a warp.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/ptx/lanes.hpp"

namespace zeroth::testing::ptx {

class Warp;
struct Instruction;

/// Executes an instruction for these lanes.
using Execute = void (*)(Warp&, Instruction const&, Lanes);

/// The offset of a register in the registers of a warp: 32 values of its type; a predicate is one word of 32 bits.
/// Constants and special registers are registers too, set before the kernel runs.
using Slot = std::uint32_t;

enum class Flow : std::uint8_t {
  next,
  branch,
  end,
  together,  ///< All lanes of the warp execute it at the same time (.sync.aligned).
  barrier,   ///< Like together, for all warps of the block.
};

struct Instruction {
  Execute execute = nullptr;
  Flow flow = Flow::next;
  bool unless = false;        ///< Executes for lanes whose guard is false.
  std::uint8_t elements = 1;  ///< Elements of a vector.
  std::uint8_t address_bytes = 0;
  Slot guard = 0;
  std::array<Slot, 4> to{};
  std::array<Slot, 10> from{};
  std::int64_t offset = 0;   ///< Offset of an address, or the groups of copies that may still be in flight.
  std::uint32_t target = 0;  ///< Target of a branch.
};

struct Kernel {
  struct Parameter {
    std::size_t offset, bytes;
  };

  std::string name;
  std::vector<Instruction> code;
  /// The source of each instruction, for messages.
  struct Origin {
    int line;
    std::string text;
  };
  std::vector<Origin> origins;

  std::vector<std::byte> registers;  ///< Initial registers of a warp: constants, and garbage elsewhere.
  Slot thread = 0, block = 0, threads = 0, blocks = 0;  ///< %tid.x, %ctaid.x, %ntid.x, %nctaid.x

  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;
  int max_threads = 0;
};

}  // namespace zeroth::testing::ptx
