// SPDX-License-Identifier: Apache-2.0
/// The shared memory of a block, with the threads' accesses since the last barrier.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroth::testing::ptx {

/// Every access has 2, 4, 8 or 16 bytes and is aligned to its size; otherwise it is a Fault. Races are Faults, too: two
/// accesses of different threads to the same bytes without a barrier in between, one of them a write. Unwritten bytes
/// may be read, since compilers load more than they need: every type has a NaN there.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);

  /// Starts a block, without any writes yet.
  void start();
  void barrier();
  [[nodiscard]] std::byte const* read(std::uint64_t at, std::size_t bytes, int thread);
  [[nodiscard]] std::byte* write(std::uint64_t at, std::size_t bytes, int thread);
  /// cp.async is in flight to these bytes: no thread may access them until it has arrived, and `thread` has waited for
  /// that.
  void expect(std::uint64_t at, std::size_t bytes, int thread);
  [[nodiscard]] std::byte* arrive(std::uint64_t at, std::size_t bytes, int thread);

 private:
  /// An access: the number of barriers before it, and the thread in the lowest bits.
  using Stamp = std::uint32_t;
  static constexpr Stamp stamp_threads = 2048, many_threads = stamp_threads - 1, on_its_way = ~Stamp{0};
  static constexpr std::size_t unit = 2;  // bytes that share a stamp

  void expect_inside(std::uint64_t at, std::size_t bytes) const;
  [[nodiscard]] Stamp stamp(int thread) const { return since_barrier_ + static_cast<Stamp>(thread); }
  [[noreturn]] void report(std::uint64_t at, std::size_t bytes, Stamp mine) const;

  std::vector<std::byte> bytes_;
  std::vector<Stamp> readers_, writers_;
  Stamp since_barrier_ = stamp_threads;
};

}  // namespace zeroth::testing::ptx
