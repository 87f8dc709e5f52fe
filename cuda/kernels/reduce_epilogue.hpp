// SPDX-License-Identifier: Apache-2.0
/// Moves a reduction's result into its destination, and computes the block sums of squares of the new values, in one
/// pass.
#pragma once
#include <algorithm>

#include "cuda/kernels/move.hpp"
#include "cuda/kernels/square_sums.hpp"
#include "device/kernels.hpp"

namespace zeroth::cuda {

/// Moves [move.begin, move.end), or only reads the destination with `in_place`, and sums squares by blocks.
template <class To, class From>
struct MoveAndSum {
  static constexpr int threads = 128;
  static constexpr int pack = Move<To, From>::pack;
  using Shared = SquareTile<threads, 8, pack>;  // a tile, from the start of its first pack
  static constexpr int tile_count = Shared::tile_count;

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
            shared.values[Shared::place(at + k)] = to_float(stored.at[k]);
          }
        });
      });
      shared.sum(block, static_cast<int>(begin - first_pack), static_cast<int>(tile.end - begin),
                 block_sums + i * Shared::sums_at_once);
    }
  }

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const {
    return (move.end - move.begin + tile_count - 1) / tile_count;
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
