// SPDX-License-Identifier: Apache-2.0
/// GELU in its tanh form, as cuBLASLt's epilogues have it.
#pragma once
#include <cmath>
#include <numbers>

#include "cuda/packs.hpp"
#include "gpu/kernels/row_packs.hpp"

namespace gpt::gpu {

inline constexpr float sqrt_2_over_pi = 0.7978845608028654F;
inline constexpr float cubic = 0.044715F;

/// 1 / x for x of at least 1.
ZEROTH_DEVICE inline float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  return __fdividef(1, x);  // to 2 units in the last place; a division would branch for results near zero or infinity
#else
  return 1 / x;
#endif
}

/// e^-2z, where gelu(u) = u * (1 + tanh(z)) / 2 = u / (1 + e^-2z): a power of two is one instruction, tanh about
/// twenty. Clamped to a finite value; larger ones make no difference.
ZEROTH_DEVICE inline float gelu_power(float u) {
  return std::exp2(std::fmin(u * (-2 * std::numbers::log2e_v<float> * sqrt_2_over_pi * (1 + cubic * u * u)), 120.0F));
}

ZEROTH_DEVICE inline float gelu(float u) { return u * reciprocal(1 + gelu_power(u)); }

ZEROTH_DEVICE inline float gelu_slope(float u) {
  float const power = gelu_power(u);
  float const high = reciprocal(1 + power);  // (1 + tanh(z)) / 2
  float const low = power * high;            // (1 - tanh(z)) / 2
  return high * (1 + u * low * 2 * sqrt_2_over_pi * (1 + 3 * cubic * u * u));
}

/// y = gelu(x), or with `slope` y = y * gelu'(x). May work in place.
template <Element T>
struct Gelu {
  static constexpr int threads = 256, resident_blocks = 8;
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
    block.alone([&](int thread) {
      for (std::int64_t i = block.index(); i < work(); i += block.count()) {
        auto const tile = zeroth::cuda::tile_of<tile_count>(grid, 0, count, i);
        zeroth::cuda::each_pack<threads>(grid, tile, thread, [&](std::int64_t first, auto lanes) {
          auto const in = zeroth::cuda::load<lanes()>(x + first);
          Pack<float, lanes()> out;
          if (slope) {
            auto const times = zeroth::cuda::load<lanes()>(y + first);
            for (int k = 0; k < lanes(); ++k) {
              out.at[k] = float_of(times.at[k]) * gelu_slope(float_of(in.at[k]));
            }
          } else {
            for (int k = 0; k < lanes(); ++k) {
              out.at[k] = gelu(float_of(in.at[k]));
            }
          }
          zeroth::cuda::store(y + first, from_floats<T>(out));
        });
      }
    });
  }
};

}  // namespace gpt::gpu
