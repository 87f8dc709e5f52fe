// SPDX-License-Identifier: Apache-2.0
/// LAMB's first pass: moments, sums of squares by blocks, and trust ratios.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <type_traits>
#include <variant>

#include "core/dispatch.hpp"
#include "cuda/kernels/segments.hpp"
#include "cuda/kernels/square_sums.hpp"
#include "cuda/packs.hpp"
#include "device/kernels.hpp"
#include "optim/lamb_element.hpp"

namespace zeroth::cuda {

/// Moves the moments of some segments. M is the master's type, fp32 or bf16.
template <class G, class M>
struct MoveMoments {
  static constexpr int threads = 128;
  static constexpr int pack = pack_count<M, float, G>;
  using Squares = SquareTile<threads, 4, pack>;
  static constexpr int tile_count = Squares::tile_count;
  struct Shared {
    Squares weights, directions;
  };

  float *first_moment, *second_moment;
  M const* master;
  G const* gradient;
  float *weight_squares, *direction_squares;
  optim::Lamb rule;
  optim::StepScalars const* scalars;
  PackGrid<pack> grid;
  SegmentTiles segments;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    if (scalars->skip) {
      return;
    }
    for (std::int64_t i = block.index(); i < segments.tiles(); i += block.count()) {
      int const k = segments.segment_of(i);
      auto const& segment = segments.segments[k];
      std::int64_t const begin = segment.begin + segments.index_in(k, i) * tile_count;
      Tile const tile{begin, begin + tile_count < segment.end ? begin + tile_count : segment.end};
      std::int64_t const first_pack = grid.begin_of_pack(begin);
      auto const factors = optim::factors_of(rule, *scalars, segment);
      block.phase([&](int thread) {
        each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto count) {
          move(factors, first, static_cast<int>(first - first_pack), shared, count);
        });
      });
      auto const skipped = static_cast<int>(begin - first_pack), used = static_cast<int>(tile.end - begin);
      shared.weights.sum(block, skipped, used, weight_squares + begin / device::sum_block_count);
      shared.directions.sum(block, skipped, used, direction_squares + begin / device::sum_block_count);
    }
  }

  [[nodiscard]] std::int64_t tiles_of_segment(optim::Segment const& segment) const {
    return (segment.end - segment.begin + tile_count - 1) / tile_count;
  }

 private:
  template <int count>
  ZEROTH_DEVICE void move(optim::LambFactors const& factors, std::int64_t first, int at, Shared& shared,
                          Count<count> /*size*/) const {
    auto const narrow = load<count>(gradient + first);
    auto const weights = load<count>(master + first);
    auto m = load<count>(first_moment + first), v = load<count>(second_moment + first);
    for (int k = 0; k < count; ++k) {
      float const weight = to_float(weights.at[k]);
      optim::move_moments(factors, to_float(narrow.at[k]), m.at[k], v.at[k]);
      shared.weights.values[Squares::place(at + k)] = weight;
      shared.directions.values[Squares::place(at + k)] = optim::direction_of(factors, weight, m.at[k], v.at[k]);
    }
    store(first_moment + first, m);
    store(second_moment + first, v);
  }
};

/// One thread for each parameter.
struct TrustRatios {
  static constexpr int threads = warp_threads;
  struct Shared {};

  optim::Lamb rule;
  optim::StepScalars const* scalars;
  device::NormSums const* sums;
  float* ratios;
  std::int64_t count;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      for (std::int64_t i = block.index() * threads + thread; i < count && !scalars->skip;
           i += block.count() * threads) {
        ratios[i] = optim::trust_ratio(rule, sums[i].weights.value(), sums[i].directions.value());
      }
    });
  }
};

template <class G, class M, class Launch>
[[nodiscard]] cudaError_t launch_moments_of(Launch const& launch, device::MoveMoments const& args) {
  using Body = MoveMoments<G, M>;
  auto const& update = args.update;
  auto* const first = static_cast<float*>(update.states[0]);
  auto* const second = static_cast<float*>(update.states[1]);
  std::array const arrays{Array{first, sizeof(float)}, Array{second, sizeof(float)}, Array{update.master, sizeof(M)},
                          Array{update.gradient, sizeof(G)}};
  Body body{first,
            second,
            static_cast<M const*>(update.master),
            static_cast<G const*>(update.gradient),
            args.weight_squares,
            args.direction_squares,
            std::get<optim::Lamb>(update.update->rule),
            update.scalars,
            pack_grid<Body::pack>(arrays),
            {}};
  return launch_on_segments(launch, body, update.segments);
}

/// Instantiates only what device::expect_move_moments() accepts.
template <class Launch>
[[nodiscard]] cudaError_t launch_move_moments(Launch const& launch, device::MoveMoments const& args) {
  if (args.update.master_dtype == Dtype::bf16) {
    return launch_moments_of<bf16, bf16>(launch, args);
  }
  cudaError_t result = cudaSuccess;
  with_element(args.update.gradient_dtype,
               [&]<class G>(std::type_identity<G>) { result = launch_moments_of<G, float>(launch, args); });
  return result;
}

template <class Launch>
[[nodiscard]] cudaError_t launch_trust_ratios(Launch const& launch, device::TrustRatios const& args) {
  TrustRatios const body{*args.rule, args.scalars, args.sums, args.ratios, args.count};
  auto const blocks = (args.count + TrustRatios::threads - 1) / TrustRatios::threads;
  return blocks == 0 ? cudaSuccess : launch(body, blocks);
}

}  // namespace zeroth::cuda
