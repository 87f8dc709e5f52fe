/// AdamW in one pass over master, m, v, gradient and parameter.
#pragma once
#include <cuda_runtime_api.h>

#include <array>

#include "core/dispatch.hpp"
#include "cuda/packs.hpp"
#include "optim/adamw_element.hpp"

namespace zeroth::cuda {

/// Some of the segments of an update. They travel by value, as arguments of the kernel do, so that a step neither
/// copies nor keeps them. P is the parameter's type, or void where the master is the parameter.
template <class G, class P>
struct Adamw {
  static constexpr int threads = 256;
  static constexpr int pack = pack_count<float, G, std::conditional_t<Element<P>, P, float>>;
  static constexpr int tile_count = threads * pack * 2;
  static constexpr int most_segments = 96;  // so that arguments stay below 4 KiB
  struct Shared {};

  float *master, *m, *v;
  G const* gradient;
  P* parameter;
  optim::AdamRules rules;
  optim::StepScalars const* scalars;
  PackGrid<pack> grid;
  int segment_count = 0;
  optim::AdamwSegment segments[most_segments] = {};
  std::int64_t tiles_through[most_segments] = {};  ///< Of the segments up to and including this one.

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.phase([&](int thread) {
      if (scalars->skip) {
        return;
      }
      for (std::int64_t i = block.index(); i < tiles(); i += block.count()) {
        int const k = segment_of(i);
        auto const& segment = segments[k];
        auto const tile = tile_of<tile_count>(grid, segment.begin, segment.end, k == 0 ? i : i - tiles_through[k - 1]);
        auto const factors = optim::factors_of(rules, *scalars, segment);
        each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto count) { update(factors, first, count); });
      }
    });
  }

  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t tiles() const {
    return segment_count == 0 ? 0 : tiles_through[segment_count - 1];
  }

  [[nodiscard]] bool full() const { return segment_count == most_segments; }
  void add(optim::AdamwSegment const& segment) {
    segments[segment_count] = segment;
    tiles_through[segment_count] = tiles() + tiles_of<tile_count>(grid, segment.begin, segment.end);
    ++segment_count;
  }

 private:
  /// Whose tile this is: the first segment whose tiles go beyond it.
  [[nodiscard]] ZEROTH_DEVICE int segment_of(std::int64_t tile) const {
    int low = 0;
    for (int high = segment_count - 1; low < high;) {
      int const middle = (low + high) / 2;
      if (tiles_through[middle] > tile) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  template <int count>
  ZEROTH_DEVICE void update(optim::AdamwFactors const& factors, std::int64_t first, Count<count> /*count*/) const {
    auto const wide = load<count>(gradient + first);
    auto a = load<count>(master + first);
    auto b = load<count>(m + first);
    auto c = load<count>(v + first);
    for (int k = 0; k < count; ++k) {
      optim::update_element(factors, to_float(wide.at[k]), a.at[k], b.at[k], c.at[k]);
    }
    store(master + first, a);
    store(m + first, b);
    store(v + first, c);
    if constexpr (Element<P>) {
      Pack<P, count> rounded;
      for (int k = 0; k < count; ++k) {
        rounded.at[k] = from_float<P>(a.at[k]);
      }
      store(parameter + first, rounded);
    }
  }
};

template <class G, class P, class Launch>
[[nodiscard]] cudaError_t launch_segments(Launch const& launch, optim::AdamwArgs const& args) {
  using Body = Adamw<G, P>;
  std::array const arrays{Array{args.master, 4}, Array{args.m, 4}, Array{args.v, 4}, Array{args.gradient, sizeof(G)},
                          Array{args.parameter, args.parameter == nullptr ? 0 : bytes_of(args.parameter_dtype)}};
  static_assert(sizeof(Body) <= 4096);
  Body body{args.master,
            args.m,
            args.v,
            static_cast<G const*>(args.gradient),
            static_cast<P*>(args.parameter),
            args.rules,
            args.scalars,
            pack_grid<Body::pack>(arrays)};
  for (auto const& segment : args.segments) {
    if (segment.begin == segment.end) {
      continue;
    }
    if (body.full()) {
      if (auto const result = launch(body, body.tiles()); result != cudaSuccess) {
        return result;
      }
      body.segment_count = 0;
    }
    body.add(segment);
  }
  return body.segment_count == 0 ? cudaSuccess : launch(body, body.tiles());
}

template <class Launch>
[[nodiscard]] cudaError_t launch_adamw(Launch const& launch, optim::AdamwArgs const& args) {
  cudaError_t result = cudaSuccess;
  with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    if (args.parameter == nullptr) {
      result = launch_segments<G, void>(launch, args);
      return;
    }
    with_element(args.parameter_dtype,
                 [&]<class P>(std::type_identity<P>) { result = launch_segments<G, P>(launch, args); });
  });
  return result;
}

}  // namespace zeroth::cuda
