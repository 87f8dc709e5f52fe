// SPDX-License-Identifier: Apache-2.0
/// State that the threads of a block share while they run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/ptx/async_copies.hpp"
#include "support/ptx/global_memory.hpp"
#include "support/ptx/launch.hpp"
#include "support/ptx/shared_memory.hpp"
#include "support/ptx/traffic.hpp"
#include "support/ptx/warp.hpp"

namespace zeroth::testing::ptx {

class Block {
 public:
  Block(Kernel const& of_kernel, Launch const& of_launch);
  Block(Block const&) = delete;
  Block& operator=(Block const&) = delete;
  ~Block() = default;

  void run(unsigned index);
  [[nodiscard]] unsigned index() const { return index_; }

  Kernel const& kernel;
  Launch const& launch;
  GlobalMemory global;
  SharedMemory shared;
  AsyncCopies copies;
  Traffic traffic;               ///< The traffic of all runs.
  std::vector<std::byte> local;  ///< The local memory of all threads, one after the other.

 private:
  /// Runs every warp to its end or to the next barrier, where all meet. False if all have ended.
  bool run_to_barrier();

  std::vector<Warp> warps_;
  unsigned index_ = 0;
  bool backwards_ = false;
};

}  // namespace zeroth::testing::ptx
