/// Memory that all blocks reach: the host's, where it was allocated for the GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/ptx/launch.hpp"

namespace zeroth::testing::ptx {

class GlobalMemory {
 public:
  explicit GlobalMemory(FindMemory find) : find_{std::move(find)} {}

  /// Of `bytes` bytes at `address`, aligned as the accesses of GPUs must be; or Fault.
  [[nodiscard]] std::byte* at(std::uint64_t address, std::size_t bytes) {
    if (address % bytes != 0 || !last_.holds(address, bytes)) {
      look_up(address, bytes);
    }
    return reinterpret_cast<std::byte*>(address);
  }

 private:
  void look_up(std::uint64_t address, std::size_t bytes);

  FindMemory find_;
  Memory last_;
  std::vector<Memory> found_;
};

}  // namespace zeroth::testing::ptx
