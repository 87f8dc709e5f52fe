// SPDX-License-Identifier: Apache-2.0
/// Element-wise moves: conversions, and the update of a reduction's destination.
#pragma once
#include <cuda_runtime_api.h>

#include <array>

#include "core/dispatch.hpp"
#include "cuda/packs.hpp"
#include "device/element_arithmetic.hpp"

namespace zeroth::cuda {

/// `destination[i] = source[i]`, or `+=` with `accumulate`, for i in [begin, end).
template <class To, class From>
struct Move {
  static constexpr int threads = 256;
  static constexpr int pack = pack_count<To, From>;
  static constexpr int tile_count = threads * pack * 2;
  struct Shared {};

  To* destination;
  From const* source;
  std::int64_t begin, end;
  bool accumulate;
  PackGrid<pack> grid;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      for (std::int64_t i = block.index(); i < tiles(); i += block.count()) {
        auto const tile = tile_of<tile_count>(grid, begin, end, i);
        each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto count) { (void)move(first, count); });
      }
    });
  }

  /// Moves `count` elements and returns the destination's new values.
  template <int count>
  ZEROTH_DEVICE Pack<To, count> move(std::int64_t first, Count<count> /*count*/) const {
    auto const from = load<count>(source + first);
    Pack<To, count> to;
    if (accumulate) {
      auto const before = load<count>(destination + first);
      for (int k = 0; k < count; ++k) {
        to.at[k] = device::add_element(before.at[k], from.at[k]);
      }
    } else {
      for (int k = 0; k < count; ++k) {
        to.at[k] = device::convert_element<To>(from.at[k]);
      }
    }
    store(destination + first, to);
    return to;
  }

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const { return tiles_of<tile_count>(grid, begin, end); }
};

/// Launches `move` by `launch(body, blocks)`, if there is any work.
template <class Launch, class To, class From>
[[nodiscard]] cudaError_t launch_move(Launch const& launch, Move<To, From> const& move) {
  return move.tiles() == 0 ? cudaSuccess : launch(move, move.tiles());
}

template <class To, class From>
[[nodiscard]] inline Move<To, From> move_of(void* destination, void const* source, std::int64_t begin, std::int64_t end,
                                            bool accumulate) {
  std::array const arrays{Array{destination, sizeof(To)}, Array{source, sizeof(From)}};
  return {static_cast<To*>(destination),          static_cast<From const*>(source), begin, end, accumulate,
          pack_grid<Move<To, From>::pack>(arrays)};
}

template <class Launch>
[[nodiscard]] cudaError_t launch_convert(Launch const& launch, void* destination, Dtype destination_dtype,
                                         void const* source, Dtype source_dtype, std::int64_t count) {
  if (destination == source) {  // they have one dtype, so nothing changes
    return cudaSuccess;
  }
  cudaError_t result = cudaSuccess;
  with_element(destination_dtype, [&]<class To>(std::type_identity<To>) {
    with_element(source_dtype, [&]<class From>(std::type_identity<From>) {
      result = launch_move(launch, move_of<To, From>(destination, source, 0, count, false));
    });
  });
  return result;
}

}  // namespace zeroth::cuda
