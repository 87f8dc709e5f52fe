/// GELU in its tanh form, as cuBLASLt's epilogues have it.
#pragma once
#include <cmath>

#include "cuda/packs.hpp"
#include "gpu/kernels/columns.hpp"

namespace gpt::gpu {

inline constexpr float sqrt_2_over_pi = 0.7978845608028654F;
inline constexpr float cubic = 0.044715F;

ZEROTH_DEVICE inline float gelu(float u) {
  return 0.5F * u * (1 + std::tanh(sqrt_2_over_pi * u * (1 + cubic * u * u)));
}

ZEROTH_DEVICE inline float gelu_slope(float u) {
  float const t = std::tanh(sqrt_2_over_pi * u * (1 + cubic * u * u));
  return 0.5F * (1 + t) * (1 + u * (1 - t) * sqrt_2_over_pi * (1 + 3 * cubic * u * u));
}

/// y = gelu(x), or with `slope` y = y * gelu'(x). In place or not.
template <Element T>
struct Gelu {
  static constexpr int threads = 256;
  static constexpr int pack = zeroth::cuda::pack_count<T>;
  static constexpr int tile_count = threads * pack;
  struct Shared {};

  T const* x;
  T* y;
  std::int64_t count;
  bool slope;
  zeroth::cuda::PackGrid<pack> grid;

  Gelu(T const* from, T* to, std::int64_t elements, bool times_slope)
      : x{from}, y{to}, count{elements}, slope{times_slope} {
    zeroth::cuda::Array const arrays[] = {{x, sizeof(T)}, {y, sizeof(T)}};
    grid = zeroth::cuda::pack_grid<pack>(arrays);
  }
  [[nodiscard]] ZEROTH_HOST_DEVICE std::int64_t work() const {
    return zeroth::cuda::tiles_of<tile_count>(grid, 0, count);
  }

  template <class Block>
  ZEROTH_DEVICE void operator()(Block& block, Shared& /*shared*/) const {
    block.phase([&](int thread) {
      for (std::int64_t i = block.index(); i < work(); i += block.count()) {
        auto const tile = zeroth::cuda::tile_of<tile_count>(grid, 0, count, i);
        zeroth::cuda::each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto lanes) {
          auto const in = zeroth::cuda::load<lanes()>(x + first);
          auto out = in;
          if (slope) {
            out = zeroth::cuda::load<lanes()>(y + first);
          }
          for (int k = 0; k < lanes(); ++k) {
            float const u = to_float(in.at[k]);
            out.at[k] = from_float<T>(slope ? to_float(out.at[k]) * gelu_slope(u) : gelu(u));
          }
          zeroth::cuda::store(y + first, out);
        });
      }
    });
  }
};

}  // namespace gpt::gpu
