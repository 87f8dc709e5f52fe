// SPDX-License-Identifier: Apache-2.0
/// The shared memory of a block, and who of its threads has touched what of it since the last barrier.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroth::testing::ptx {

/// Every access is of 2, 4, 8 or 16 bytes, aligned to as many; else it is a Fault, and so are races: two accesses of
/// different threads to the same bytes without a barrier in between, one of them a write. What nobody wrote may be read
/// (compilers load more than they need): every type has a NaN there.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);

  /// Of a block: nobody has written anything.
  void start();
  void barrier();
  [[nodiscard]] std::byte const* read(std::uint64_t at, std::size_t bytes, int thread);
  [[nodiscard]] std::byte* write(std::uint64_t at, std::size_t bytes, int thread);
  /// cp.async is on its way to these bytes: nobody may touch them until it has arrived, which `thread` has waited for.
  void expect(std::uint64_t at, std::size_t bytes, int thread);
  [[nodiscard]] std::byte* arrive(std::uint64_t at, std::size_t bytes, int thread);

 private:
  /// An access: the barriers before it, and the thread in the lowest bits.
  using Stamp = std::uint32_t;
  static constexpr Stamp stamp_threads = 2048, many_threads = stamp_threads - 1, on_its_way = ~Stamp{0};
  static constexpr std::size_t unit = 2;  // bytes that have a stamp

  void expect_inside(std::uint64_t at, std::size_t bytes) const;
  [[nodiscard]] Stamp stamp(int thread) const { return since_barrier_ + static_cast<Stamp>(thread); }
  [[noreturn]] void report(std::uint64_t at, std::size_t bytes, Stamp mine) const;

  std::vector<std::byte> bytes_;
  std::vector<Stamp> readers_, writers_;
  Stamp since_barrier_ = stamp_threads;
};

}  // namespace zeroth::testing::ptx
