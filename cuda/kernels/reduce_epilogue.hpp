// SPDX-License-Identifier: Apache-2.0
/// Moves a reduction's result into its destination, and computes the block sums of squares of the new values, in one
/// pass.
#pragma once
#include <algorithm>

#include "cuda/kernels/move.hpp"
#include "device/kernels.hpp"

namespace zeroth::cuda {

/// Moves [move.begin, move.end), or only reads the destination with `in_place`. Each warp sums blocks of
/// sum_block_count elements. The order of its lanes differs from that of wide accesses, so elements are exchanged
/// through shared memory.
template <class To, class From>
struct MoveAndSum {
  static constexpr int threads = 128;
  static constexpr int warps = threads / warp_threads;
  static constexpr int sums_of_a_warp = 8;
  static constexpr int sums_at_once = warps * sums_of_a_warp;
  static constexpr int pack = Move<To, From>::pack;
  static constexpr int tile_count = sums_at_once * static_cast<int>(device::sum_block_count);
  static_assert(device::square_lanes == warp_threads);
  struct Shared {
    float values[(tile_count + pack) / 32 * 33 + 33];  // a tile, from the start of its first pack, indexed by place()
  };

  Move<To, From> move;
  bool in_place;
  float* block_sums;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    for (std::int64_t i = block.index(); i < tiles(); i += block.count()) {
      std::int64_t const begin = move.begin + i * tile_count;
      Tile const tile{begin, begin + tile_count < move.end ? begin + tile_count : move.end};
      std::int64_t const first_pack = move.grid.begin_of_pack(begin);
      block.phase([&](int thread) {
        each_pack<threads>(move.grid, tile, thread, [&](std::int64_t first, auto count) {
          auto const stored = in_place ? load<count()>(move.destination + first) : move.move(first, count);
          int const at = static_cast<int>(first - first_pack);
          for (int k = 0; k < count(); ++k) {
            shared.values[place(at + k)] = to_float(stored.at[k]);
          }
        });
      });
      sum(block, shared, static_cast<int>(begin - first_pack), static_cast<int>(tile.end - begin), i * sums_at_once);
    }
  }

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const {
    return (move.end - move.begin + tile_count - 1) / tile_count;
  }

 private:
  /// The index of an element in shared memory. The gap after every 32 elements puts the simultaneous writes of a warp's
  /// threads, which are a pack apart, into different banks.
  [[nodiscard]] static ZEROTH_DEVICE int place(int element) { return element + element / 32; }

  /// Sums the squares of elements [first, first + count) in shared memory.
  template <class Block>
  ZEROTH_DEVICE void sum(Block& block, Shared& shared, int first, int count, std::int64_t first_sum) const {
    constexpr int length = static_cast<int>(device::sum_block_count);
    PerThread<float, Block> sums[sums_of_a_warp];
    block.phase([&](int thread) {
      ZEROTH_UNROLL
      for (int k = 0; k < sums_of_a_warp; ++k) {
        int const begin = (thread / warp_threads + k * warps) * length;
        int const end = begin + length < count ? begin + length : count;
        float sum = 0;
        for (int i = begin + thread % warp_threads; i < end; i += warp_threads) {
          sum = device::add_square(sum, shared.values[place(first + i)]);
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
          block_sums[first_sum + sum] = sums[k][thread];
        }
      }
    });
  }
};

template <class To, class From, class Launch>
[[nodiscard]] cudaError_t launch_epilogue(Launch const& launch, device::ReduceEpilogue const& args) {
  bool const in_place = !args.accumulate && args.destination == args.source;
  bool const sums = args.block_sums != nullptr;
  std::int64_t const sums_begin = sums ? args.sums_begin : args.count;
  std::int64_t const sums_end = sums ? args.sums_begin + args.sums_count : args.count;
  auto const part = [&](std::int64_t begin, std::int64_t end) {
    return move_of<To, From>(args.destination, args.source, begin, end, args.accumulate);
  };
  cudaError_t result = cudaSuccess;
  if (!in_place) {
    result = launch_move(launch, part(0, sums_begin));
  }
  MoveAndSum<To, From> const body{part(sums_begin, sums_end), in_place, args.block_sums};
  if (result == cudaSuccess && body.tiles() > 0) {
    result = launch(body, body.tiles());
  }
  if (result == cudaSuccess && !in_place) {
    result = launch_move(launch, part(sums_end, args.count));
  }
  return result;
}

template <class Launch>
[[nodiscard]] cudaError_t launch_reduce_epilogue(Launch const& launch, device::ReduceEpilogue const& args) {
  cudaError_t result = cudaSuccess;
  with_element(args.destination_dtype, [&]<class To>(std::type_identity<To>) {
    with_element(args.source_dtype,
                 [&]<class From>(std::type_identity<From>) { result = launch_epilogue<To, From>(launch, args); });
  });
  return result;
}

}  // namespace zeroth::cuda
