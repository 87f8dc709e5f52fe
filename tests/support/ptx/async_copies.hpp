// SPDX-License-Identifier: Apache-2.0
/// cp.async: copies from global to shared memory. They arrive only when their thread waits for them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/ptx/kernel.hpp"

namespace zeroth::testing::ptx {

class Warp;

class AsyncCopies {
 public:
  explicit AsyncCopies(std::size_t threads) : threads_(threads) {}

  void start();
  /// The first `there` of `bytes` bytes come from `from`, the others are zeros.
  void copy(Warp& warp, int lane, std::uint64_t to, std::uint64_t from, std::size_t bytes, std::size_t there);
  /// Makes the thread's copies since the last call a group.
  void commit(int thread);
  /// Waits until all groups of the thread but the last `left` have arrived.
  void wait(Warp& warp, int lane, std::int64_t left);
  /// Fault if a thread that ends has begun copies outside of any group, which no thread can have waited for.
  void expect_committed(Warp const& warp, Lanes lanes) const;

 private:
  struct Copy {
    std::int64_t group;
    std::uint64_t to;
    std::size_t bytes;
    std::array<std::byte, 16> data;
  };
  struct Thread {
    std::int64_t groups = 0;
    std::vector<Copy> copies;  // in order of their groups
  };
  std::vector<Thread> threads_;
};

}  // namespace zeroth::testing::ptx
