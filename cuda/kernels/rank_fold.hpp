// SPDX-License-Identifier: Apache-2.0
/// The sum over ranks, of elements or of elements times a factor, or the maximum, in rank order, to all outputs.
#pragma once
#include <array>
#include <type_traits>

#include "core/dispatch.hpp"
#include "cuda/packs.hpp"
#include "device/cuda_launch.hpp"
#include "device/element_arithmetic.hpp"

namespace zeroth::cuda {

/// Calls `add(first, count)` of a body for the packs and single elements of a fold over ranks.
template <class Body, class T>
struct EachOfRanks {
  static constexpr int threads = 256;
  static constexpr int pack = pack_count<T>;
  static constexpr int tile_count = threads * pack * 2;
  struct Shared {};

  RankFold args;
  PackGrid<pack> grid;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      for (std::int64_t i = block.index(); i < tiles(); i += block.count()) {
        auto const tile = tile_of<tile_count>(grid, args.first, args.first + args.count, i);
        each_pack<threads>(grid, tile, thread,
                           [&](std::int64_t first, auto count) { static_cast<Body const&>(*this).add(first, count); });
      }
    });
  }

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const {
    return tiles_of<tile_count>(grid, args.first, args.first + args.count);
  }
};

template <class T, Reduce which>
struct FoldRanks : EachOfRanks<FoldRanks<T, which>, T> {
  using Wide = device::RankSumOf<T>;

  /// Reads all inputs before it writes: an output may be one of them.
  template <int count>
  ZEROTH_DEVICE void add(std::int64_t first, Count<count> /*count*/) const {
    RankFold const& given = this->args;
    Wide folded[count];
    auto const begin = load<count>(static_cast<T const*>(given.inputs[0]) + first);
    for (int k = 0; k < count; ++k) {
      folded[k] = wide(begin.at[k]);
    }
    for (int rank = 1; rank < given.input_count; ++rank) {
      auto const input = load<count>(static_cast<T const*>(given.inputs[rank]) + first);
      for (int k = 0; k < count; ++k) {
        folded[k] = with(folded[k], input.at[k]);
      }
    }
    Pack<T, count> result;
    for (int k = 0; k < count; ++k) {
      result.at[k] = device::round_sum<T>(folded[k]);
    }
    for (int output = 0; output < given.output_count; ++output) {
      store(static_cast<T*>(given.outputs[output]) + first, result);
    }
  }

 private:
  [[nodiscard]] ZEROTH_DEVICE Wide wide(T value) const {
    if constexpr (which == Reduce::premul_sum) {
      return device::widen_for_sum(value) * static_cast<Wide>(this->args.factor);
    } else {
      return device::widen_for_sum(value);
    }
  }

  [[nodiscard]] ZEROTH_DEVICE Wide with(Wide so_far, T value) const {
    if constexpr (which == Reduce::maximum) {
      auto const other = wide(value);
      return device::is_beyond<true>(so_far, other) ? other : so_far;
    } else {
      return static_cast<Wide>(so_far + wide(value));
    }
  }
};

/// Adds into sums in fp32, which overlap no input.
template <class T>
struct AddRanksInto : EachOfRanks<AddRanksInto<T>, T> {
  template <int count>
  ZEROTH_DEVICE void add(std::int64_t first, Count<count> /*count*/) const {
    RankFold const& given = this->args;
    Pack<float, count> sum;
    if (given.accumulate) {
      sum = load<count>(given.sums + first);
    }
    for (int rank = 0; rank < given.input_count; ++rank) {
      auto const input = load<count>(static_cast<T const*>(given.inputs[rank]) + first);
      bool const begins = rank == 0 && !given.accumulate;
      for (int k = 0; k < count; ++k) {
        sum.at[k] = begins ? to_float(input.at[k]) : sum.at[k] + to_float(input.at[k]);
      }
    }
    store(given.sums + first, sum);
  }
};

template <class Launch>
[[nodiscard]] cudaError_t launch_rank_fold_into(Launch const& launch, RankFold const& args) {
  std::array<Array, 1 + RankFold::most_ranks> arrays{};
  arrays[0] = {args.sums, sizeof(float)};
  for (int k = 0; k < args.input_count; ++k) {
    arrays[static_cast<std::size_t>(k) + 1] = {args.inputs[k], bytes_of(args.dtype)};
  }
  auto const used = std::span{arrays}.first(static_cast<std::size_t>(args.input_count) + 1);
  cudaError_t result = cudaSuccess;
  with_element(args.dtype, [&]<class T>(std::type_identity<T>) {
    AddRanksInto<T> const body{{args, pack_grid<AddRanksInto<T>::pack>(used)}};
    result = launch(body, body.tiles());
  });
  return result;
}

template <class Launch>
[[nodiscard]] cudaError_t launch_rank_fold(Launch const& launch, RankFold const& args) {
  if (args.count == 0) {
    return cudaSuccess;
  }
  if (args.sums != nullptr) {
    return launch_rank_fold_into(launch, args);
  }
  if (args.output_count == 0) {
    return cudaSuccess;
  }
  std::array<Array, 2 * RankFold::most_ranks> arrays{};
  std::size_t array_count = 0;
  for (int k = 0; k < args.output_count; ++k) {
    arrays[array_count++] = {args.outputs[k], bytes_of(args.dtype)};
  }
  for (int k = 0; k < args.input_count; ++k) {
    arrays[array_count++] = {args.inputs[k], bytes_of(args.dtype)};
  }
  cudaError_t result = cudaSuccess;
  device::with_summand(args.dtype, [&]<class T>(std::type_identity<T>) {
    auto const fold = [&]<Reduce which>(std::integral_constant<Reduce, which>) {
      using Body = FoldRanks<T, which>;
      Body const body{{args, pack_grid<Body::pack>(std::span{arrays}.first(array_count))}};
      result = launch(body, body.tiles());
    };
    if constexpr (std::is_integral_v<T>) {
      fold(std::integral_constant<Reduce, Reduce::sum>{});
    } else if (args.reduce == Reduce::maximum) {
      fold(std::integral_constant<Reduce, Reduce::maximum>{});
    } else if (args.reduce == Reduce::premul_sum) {
      fold(std::integral_constant<Reduce, Reduce::premul_sum>{});
    } else {
      fold(std::integral_constant<Reduce, Reduce::sum>{});
    }
  });
  return result;
}

}  // namespace zeroth::cuda
