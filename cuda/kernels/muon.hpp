// SPDX-License-Identifier: Apache-2.0
/// Muon's work on elements before an update: directions, and the division of a matrix by its norm.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <type_traits>

#include "core/dispatch.hpp"
#include "cuda/packs.hpp"
#include "device/cuda_launch.hpp"
#include "optim/muon_element.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::cuda {

/// optim::direction().
template <class G>
struct Direct {
  static constexpr int threads = 256;
  static constexpr int pack = pack_count<float, G, bf16>;
  static constexpr int tile_count = threads * pack * 2;
  struct Shared {};

  G const* gradient;
  float* momentum;
  bf16* direction;
  std::int64_t count;
  optim::DirectionFactors factors;
  optim::StepScalars const* scalars;
  PackGrid<pack> grid;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.alone([&](int thread) {
      if (scalars->skip) {
        return;
      }
      float const scale = scalars->gradient_scale;
      for (std::int64_t i = block.index(); i < tiles(); i += block.count()) {
        auto const tile = tile_of<tile_count>(grid, 0, count, i);
        each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto size) { direct(scale, first, size); });
      }
    });
  }

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const { return tiles_of<tile_count>(grid, 0, count); }

 private:
  template <int size>
  ZEROTH_DEVICE void direct(float scale, std::int64_t first, Count<size> /*size*/) const {
    auto const narrow = load<size>(gradient + first);
    auto mean = load<size>(momentum + first);
    Pack<bf16, size> out;
    for (int k = 0; k < size; ++k) {
      out.at[k] = from_float<bf16>(optim::move_momentum(factors, to_float(narrow.at[k]) * scale, mean.at[k]));
    }
    store(momentum + first, mean);
    store(direction + first, out);
  }
};

/// See cuda::Normalise.
struct NormaliseElements {
  static constexpr int threads = 256;
  static constexpr int pack = pack_count<bf16>;
  static constexpr int tile_count = threads * pack * 2;
  struct Shared {
    float norm;
  };

  Normalise args;
  PackGrid<pack> grid;

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& shared) const {
    block.phase([&](int thread) {
      if (thread == 0) {
        shared.norm = optim::matrix_norm(args.squares->value());
      }
    });
    block.phase([&](int thread) {
      bool const skip = args.scalars->skip;
      float const norm = shared.norm;
      for (std::int64_t i = block.index(); i < tiles(); i += block.count()) {
        auto const tile = tile_of<tile_count>(grid, 0, args.count, i);
        each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto size) {
          auto values = load<size()>(args.matrix + first);
          for (int k = 0; k < size(); ++k) {
            values.at[k] = from_float<bf16>(skip ? 0.0F : to_float(values.at[k]) / norm);
          }
          store(args.result + first, values);
        });
      }
    });
  }

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const { return tiles_of<tile_count>(grid, 0, args.count); }
};

template <class Launch>
[[nodiscard]] cudaError_t launch_direction(Launch const& launch, optim::DirectionArgs const& args) {
  cudaError_t result = cudaSuccess;
  with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    std::array const arrays{Array{args.gradient, sizeof(G)}, Array{args.momentum, sizeof(float)},
                            Array{args.direction, sizeof(bf16)}};
    Direct<G> const body{static_cast<G const*>(args.gradient),
                         args.momentum,
                         args.direction,
                         args.count,
                         optim::direction_factors_of(*args.rule),
                         args.scalars,
                         pack_grid<Direct<G>::pack>(arrays)};
    result = body.tiles() == 0 ? cudaSuccess : launch(body, body.tiles());
  });
  return result;
}

template <class Launch>
[[nodiscard]] cudaError_t launch_normalise(Launch const& launch, Normalise const& args) {
  std::array const arrays{Array{args.matrix, sizeof(bf16)}, Array{args.result, sizeof(bf16)}};
  NormaliseElements const body{args, pack_grid<NormaliseElements::pack>(arrays)};
  return body.tiles() == 0 ? cudaSuccess : launch(body, body.tiles());
}

}  // namespace zeroth::cuda
