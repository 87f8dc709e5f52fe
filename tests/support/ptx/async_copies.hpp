// SPDX-License-Identifier: Apache-2.0
/// cp.async: copies from global to shared memory that arrive when their thread waits for them, and not before.
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
  /// `there` of the `bytes` bytes come from `from`, the others are zeros.
  void copy(Warp& warp, int lane, std::uint64_t to, std::uint64_t from, std::size_t bytes, std::size_t there);
  /// What the thread has begun since is a group.
  void commit(int thread);
  /// Until all groups of the thread but the last `left` have arrived.
  void wait(Warp& warp, int lane, std::int64_t left);
  /// Fault if a thread that ends has begun copies of no group, which nobody can have waited for.
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
