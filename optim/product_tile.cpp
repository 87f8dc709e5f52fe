// SPDX-License-Identifier: Apache-2.0
// Compiled with contraction: all products of its callers are exact, so that a fused multiply-add has the bits of an
// addition (see multiply()).
#include "product_tile.hpp"

#include <cstddef>

#include "core/isa.hpp"

namespace zeroth::optim {
namespace {

struct Wide {
  using Lanes [[gnu::vector_size(64), gnu::may_alias]] = float;
};
struct Narrow {
  using Lanes [[gnu::vector_size(32), gnu::may_alias]] = float;
};

template <class Vector, std::size_t rows, std::size_t vectors>
struct Tile {
  using Lanes = typename Vector::Lanes;
  static constexpr std::size_t lanes = sizeof(Lanes) / sizeof(float);
  float const *left, *right;
  std::int64_t inner;
  float* sums;

  ZEROTH_INLINE void operator()() const {
    Lanes local[rows][vectors] = {};
    auto const* of_left = left;
    auto const* of_right = right;
    for (std::int64_t k = 0; k < inner; ++k, of_left += rows, of_right += vectors * lanes) {
      Lanes loaded[vectors];
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) {
        loaded[v] = *reinterpret_cast<Lanes const*>(of_right + v * lanes);
      }
#pragma GCC unroll 16
      for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 8
        for (std::size_t v = 0; v < vectors; ++v) {
          local[i][v] += of_left[i] * loaded[v];
        }
      }
    }
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t v = 0; v < vectors; ++v) {
        *reinterpret_cast<Lanes*>(sums + (i * vectors + v) * lanes) = local[i][v];
      }
    }
  }
};

}  // namespace

void WideTile::multiply(float const* left, float const* right, std::int64_t inner, float* sums) noexcept {
  with_best_isa(Tile<Wide, std::size_t{rows}, std::size_t{columns / 16}>{left, right, inner, sums});
}

void NarrowTile::multiply(float const* left, float const* right, std::int64_t inner, float* sums) noexcept {
  with_best_isa(Tile<Narrow, std::size_t{rows}, std::size_t{columns / 8}>{left, right, inner, sums});
}

}  // namespace zeroth::optim
