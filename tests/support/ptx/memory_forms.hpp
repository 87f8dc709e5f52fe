// SPDX-License-Identifier: Apache-2.0
/// Instructions that access memory.
#pragma once
#include <string>
#include <vector>

#include "support/ptx/kernel.hpp"

namespace zeroth::testing::ptx {

enum class Space { global, shared, parameters, local };

/// A load into, or a store from, registers of `register_bytes` bytes, which may be wider than the data in memory.
struct Access {
  Space space = Space::global;
  bool store = false, has_sign = false;
  int elements = 1, bytes = 0;  ///< `bytes` per element.
};
/// "ld.shared.v4.f32"; throws std::runtime_error for other opcodes.
[[nodiscard]] Access access_of(std::string const& opcode);
[[nodiscard]] Execute execute_access(Access const& access, int register_bytes);

/// cp.async: `from` holds the two addresses, the size of the copy and the number of bytes to read.
void execute_copy(Warp& warp, Instruction const& instruction, Lanes lanes);
void execute_commit(Warp& warp, Instruction const& instruction, Lanes lanes);
void execute_wait(Warp& warp, Instruction const& instruction, Lanes lanes);

}  // namespace zeroth::testing::ptx
