// SPDX-License-Identifier: Apache-2.0
/// Runs a kernel on the host, one block after the other.
///
/// What GPUs leave undefined is an error here, named with the line of PTX, the block and the thread: accesses beyond
/// what was allocated or not aligned, races of threads in shared memory between two barriers, bytes of global memory
/// that two threads write, reads of what cp.async has not brought yet, instructions for whole warps that lanes reach
/// apart, barriers that warps reach apart or have left.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/ptx/kernel.hpp"

namespace zeroth::testing::ptx {

/// What a GPU is free to do one way or another.
struct Behaviour {
  bool backwards = false;         ///< The last block and the last warp first.
  int approximate_ulps = 0;       ///< By how much *.approx is wrong, at most.
  bool tensors_truncate = false;  ///< Tensor cores round their sums towards zero.
};

/// Bytes that a kernel may access, from `begin` on.
struct Memory {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;

  [[nodiscard]] bool holds(std::uintptr_t at, std::size_t count) const {
    return at >= begin && count <= bytes && at - begin <= bytes - count;
  }
};
/// The allocation that an address is in; empty if there is none.
using FindMemory = std::function<Memory(std::uintptr_t)>;

struct Launch {
  unsigned blocks = 1, threads = warp_lanes;
  std::vector<std::byte> arguments;  ///< Kernel::parameter_bytes
  Behaviour behaviour;
  FindMemory find_memory;
};

/// The kernel did what a kernel must not do.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Fault.
void run(Kernel const& kernel, Launch const& launch);

}  // namespace zeroth::testing::ptx
