// SPDX-License-Identifier: Apache-2.0
/// Sums of squares by blocks, in the order of device/element_arithmetic.hpp.
#pragma once
#include "cuda/block.hpp"
#include "device/element_arithmetic.hpp"
#include "device/kernels.hpp"

namespace zeroth::cuda {

/// Values of a tile in shared memory, and the sums of squares of its blocks of sum_block_count elements. Each warp sums
/// some of the blocks. The order of its lanes differs from that of wide accesses, so elements are exchanged here. The
/// tile begins with up to `pack` elements before the first block.
template <int threads, int sums_of_a_warp, int pack>
struct SquareTile {
  static constexpr int warps = threads / warp_threads;
  static constexpr int sums_at_once = warps * sums_of_a_warp;
  static constexpr int tile_count = sums_at_once * static_cast<int>(device::sum_block_count);
  static_assert(device::square_lanes == warp_threads);

  float values[(tile_count + pack) / 32 * 33 + 33];  // indexed by place()

  /// The index of an element. The gap after every 32 elements puts the simultaneous writes of a warp's threads, which
  /// are a pack apart, into different banks.
  [[nodiscard]] static ZEROTH_DEVICE int place(int element) { return element + element / 32; }

  /// Sums the squares of elements [first, first + count).
  template <class Block>
  ZEROTH_DEVICE void sum(Block& block, int first, int count, float* block_sums) const {
    constexpr int length = static_cast<int>(device::sum_block_count);
    PerThread<float, Block> sums[sums_of_a_warp];
    block.phase([&](int thread) {
      ZEROTH_UNROLL
      for (int k = 0; k < sums_of_a_warp; ++k) {
        int const begin = (thread / warp_threads + k * warps) * length;
        int const end = begin + length < count ? begin + length : count;
        float sum = 0;
        for (int i = begin + thread % warp_threads; i < end; i += warp_threads) {
          sum = device::add_square(sum, values[place(first + i)]);
        }
        sums[k][thread] = sum;
      }
    });
    ZEROTH_UNROLL
    for (auto& each : sums) {
      block.fold_warps(each, [](float low, float high) { return low + high; });
    }
    block.alone([&](int thread) {
      ZEROTH_UNROLL
      for (int k = 0; k < sums_of_a_warp; ++k) {
        int const sum = thread / warp_threads + k * warps;
        if (thread % warp_threads == 0 && sum * length < count) {
          block_sums[sum] = sums[k][thread];
        }
      }
    });
  }
};

}  // namespace zeroth::cuda
