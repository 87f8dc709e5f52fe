// SPDX-License-Identifier: Apache-2.0
/// Memory that all blocks can access: the host's, where it was allocated for the GPU.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "support/ptx/launch.hpp"

namespace zeroth::testing::ptx {

/// The memory accesses of one launch. If two threads write the same bytes, that is a Fault, whatever the values, unless
/// they are of one block and a barrier is between the writes: nothing else orders them.
class GlobalMemory {
 public:
  explicit GlobalMemory(FindMemory find) : find_{std::move(find)} {}

  void start(unsigned block);
  void barrier();
  /// The address of `bytes` bytes at `address`; Fault unless it is aligned as GPUs require.
  [[nodiscard]] std::byte const* read(std::uint64_t address, std::size_t bytes) { return at(address, bytes); }
  [[nodiscard]] std::byte* write(std::uint64_t address, std::size_t bytes, int thread);

 private:
  /// Block, number of barriers and thread of the last write; 0: none.
  using Stamp = std::uint64_t;
  static constexpr unsigned block_shift = 32, barrier_shift = 11;
  static constexpr std::uint64_t line = 16;  // bytes, the largest access

  [[nodiscard]] std::byte* at(std::uint64_t address, std::size_t bytes) {
    if (address % bytes != 0 || !last_.holds(address, bytes)) {
      look_up(address, bytes);
    }
    return reinterpret_cast<std::byte*>(address);
  }

  void look_up(std::uint64_t address, std::size_t bytes);

  FindMemory find_;
  Memory last_;
  std::vector<Memory> found_;
  std::unordered_map<std::uint64_t, std::array<Stamp, line>> writers_;  // by address / line
  Stamp since_barrier_ = 1;
};

}  // namespace zeroth::testing::ptx
