// SPDX-License-Identifier: Apache-2.0
/// The cost of warps' memory accesses, and the minimum for the same bytes: counts that affect the time on a GPU and not
/// the results.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "support/ptx/lanes.hpp"

namespace zeroth::testing::ptx {

struct Traffic {
  /// Passes over the 32 banks of shared memory. A bank serves one word of 4 bytes per pass. The lanes of a warp are
  /// served together, or in two halves if each accesses 8 bytes, in four quarters if it is 16; each takes at least one
  /// pass.
  std::uint64_t bank_passes = 0, least_bank_passes = 0;
  /// Sectors of 32 bytes of global memory.
  std::uint64_t sectors = 0, least_sectors = 0;

  Traffic& operator+=(Traffic const& other);
  /// Passes relative to the minimum; 0 if there were none.
  [[nodiscard]] double banks() const;
  /// Sectors relative to the minimum; 0 if there were none.
  [[nodiscard]] double global() const;
};

/// The addresses of a warp's accesses by one instruction.
using Addresses = std::array<std::uint64_t, warp_lanes>;

/// Each of `lanes` accesses `bytes` bytes: 1 to 16, a power of two, at a multiple of it.
void count_shared(Traffic& traffic, Addresses const& at, Lanes lanes, std::size_t bytes);
void count_global(Traffic& traffic, Addresses const& at, Lanes lanes, std::size_t bytes);

}  // namespace zeroth::testing::ptx
