// SPDX-License-Identifier: Apache-2.0
/// Runs a kernel on the host, one block after the other.
///
/// Undefined behaviour of GPUs is an error here, with the line of PTX, the block and the thread: unaligned accesses and
/// those outside of allocations, races of threads in shared memory between two barriers, bytes of global memory that
/// two threads write, reads of data that cp.async has not copied yet, whole-warp instructions that lanes reach
/// separately, and barriers that warps reach separately or have left.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/ptx/kernel.hpp"
#include "support/ptx/traffic.hpp"

namespace zeroth::testing::ptx {

/// Choices that a GPU is free to make.
struct Behaviour {
  bool backwards = false;         ///< Runs the last block and the last warp first.
  int approximate_ulps = 0;       ///< Maximum error of *.approx.
  bool tensors_truncate = false;  ///< Tensor cores round their sums towards zero.
  bool counts_traffic = false;    ///< Not a choice of the GPU: whether run() counts the cost of memory accesses.
};

/// Bytes that a kernel may access, from `begin` on.
struct Memory {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;

  [[nodiscard]] bool holds(std::uintptr_t at, std::size_t count) const {
    return at >= begin && count <= bytes && at - begin <= bytes - count;
  }
};
/// The allocation that contains an address; empty if there is none.
using FindMemory = std::function<Memory(std::uintptr_t)>;

struct Launch {
  unsigned blocks = 1, threads = warp_lanes;
  std::vector<std::byte> arguments;  ///< Kernel::parameter_bytes
  Behaviour behaviour;
  FindMemory find_memory;
};

/// Thrown if a kernel does what is not allowed.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns the cost of all memory accesses, if it is counted. Throws Fault.
Traffic run(Kernel const& kernel, Launch const& launch);

}  // namespace zeroth::testing::ptx
