// SPDX-License-Identifier: Apache-2.0
#include "scaled_product.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "core/isa.hpp"
#include "product_tile.hpp"

namespace zeroth::optim {
namespace {

/// Rows of the left operand are widened together: the more, the less often the right one is.
constexpr std::int64_t most_left_count = 1 << 20;

/// to_float() without operations on fp32's subnormal ones, which processors are slow at: elements of
/// x x^T are often as small as 2^-16, and subnormal in fp16.
ZEROTH_INLINE float to_fp32(fp16 value) noexcept {
  constexpr std::uint32_t rebias = 112U << 23U, least_normal = 113U << 23U, infinity = 31U << 23U;
  std::uint32_t const magnitude = (value.bits & 0x7fffU) << 13U;
  std::uint32_t const sign = (value.bits & 0x8000U) << 16U;
  float const subnormal = std::bit_cast<float>(magnitude + least_normal) - std::bit_cast<float>(least_normal);
  std::uint32_t const others = magnitude < infinity ? magnitude + rebias : magnitude + 2 * rebias;
  return std::bit_cast<float>(sign | (magnitude < 1U << 23U ? std::bit_cast<std::uint32_t>(subnormal) : others));
}
ZEROTH_INLINE float to_fp32(bf16 value) noexcept { return to_float(value); }

/// The element in fp32, or 0 if it is too small for exact products.
ZEROTH_INLINE float flushed(fp16 value) noexcept { return to_fp32(value); }
ZEROTH_INLINE float flushed(bf16 value) noexcept {
  constexpr std::uint32_t least = (127 - 60) << 23U;
  float const wide = to_float(value);
  return (std::bit_cast<std::uint32_t>(wide) & 0x7fffffffU) < least ? 0.0F : wide;
}

/// Scales and rounds `count` sums of a row, from element `first` of the result on.
template <class T>
ZEROTH_INLINE void store(ScaledProduct<T> const& p, std::int64_t first, std::int64_t count, float const* sums) {
  auto* const result = p.result + first;
  if (p.addend == nullptr) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < count; ++j) {
      result[j] = from_float<T>(p.product_factor * sums[j] + 0.0F);
    }
    return;
  }
  auto const* const addend = p.addend + first;
#pragma GCC ivdep
  for (std::int64_t j = 0; j < count; ++j) {
    result[j] = from_float<T>(p.product_factor * sums[j] + p.addend_factor * to_fp32(addend[j]));
  }
}

struct StoreAll {
  ScaledProduct<bf16> const& p;
  float const* sums;
  ZEROTH_INLINE void operator()() const {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      store(p, i * p.columns, p.symmetric ? i + 1 : p.columns, sums + i * p.columns);
    }
  }
};

/// Completes a symmetric result from its lower half.
template <class T>
void mirror(ScaledProduct<T> const& p) noexcept {
  for (std::int64_t i = 0; i < p.rows && p.symmetric; ++i) {
    for (std::int64_t j = i + 1; j < p.columns; ++j) {
      p.result[i * p.columns + j] = p.result[j * p.columns + i];
    }
  }
}

/// The number of rows that are widened together, of `tile` at a time.
constexpr std::int64_t rows_at_once(std::int64_t rows, std::int64_t inner, std::int64_t tile) noexcept {
  auto const most = std::max(tile, most_left_count / inner / tile * tile);
  return std::min(most, (rows + tile - 1) / tile * tile);
}

/// Runs a product by tiles. Operands are widened to panels, in the order in which a tile reads them.
template <class Tile, class T>
struct ByTiles {
  static constexpr std::int64_t tile_rows = Tile::rows, tile_columns = Tile::columns;
  ScaledProduct<T> const& p;
  float* panels;

  ZEROTH_INLINE void operator()() const {
    auto const at_once = rows_at_once(p.rows, p.inner, tile_rows);
    auto* const left = panels + p.inner * tile_columns;
    for (std::int64_t first = 0; first < p.rows; first += at_once) {
      auto const end = std::min(p.rows, first + at_once);
      widen_left(first, end, left);
      auto const columns = p.symmetric ? std::min(p.columns, end) : p.columns;
      for (std::int64_t column = 0; column < columns; column += tile_columns) {
        widen_right(column, std::min(tile_columns, p.columns - column));
        auto const below = p.symmetric && column > first ? (column - first) / tile_rows * tile_rows : 0;
        for (auto row = first + below; row < end; row += tile_rows) {
          alignas(64) float sums[static_cast<std::size_t>(tile_rows * tile_columns)];
          Tile::multiply(left + (row - first) * p.inner, panels, p.inner, sums);
          auto const width = std::min(tile_columns, p.columns - column);
          for (std::int64_t i = 0; i < std::min(tile_rows, p.rows - row); ++i) {
            store(p, (row + i) * p.columns + column, width, sums + i * tile_columns);
          }
        }
      }
    }
  }

 private:
  /// [tiles, inner, tile_rows]. Rows outside of the matrix are 0.
  ZEROTH_INLINE void widen_left(std::int64_t first, std::int64_t end, float* to) const {
    for (auto row = first; row < end; row += tile_rows, to += p.inner * tile_rows) {
      for (std::int64_t i = 0; i < tile_rows; ++i) {
        widen_row(row + i < end ? p.left + (row + i) * p.inner : nullptr, to + i, tile_rows);
      }
    }
  }

  /// [inner, tile_columns]. Columns outside of the matrix are 0.
  ZEROTH_INLINE void widen_right(std::int64_t column, std::int64_t count) const {
    if (!p.transposes_right) {
      for (std::int64_t k = 0; k < p.inner; ++k) {
        auto const* const from = p.right + k * p.columns + column;
        auto* const to = panels + k * tile_columns;
#pragma GCC ivdep
        for (std::int64_t j = 0; j < count; ++j) {
          to[j] = flushed(from[j]);
        }
        std::fill(to + count, to + tile_columns, 0.0F);
      }
      return;
    }
    for (std::int64_t j = 0; j < tile_columns; ++j) {
      widen_row(j < count ? p.right + (column + j) * p.inner : nullptr, panels + j, tile_columns);
    }
  }

  /// Writes a row as a column of a panel, whose elements are `stride` apart; null: zeros. Conversions are vectorised,
  /// which strided stores are not.
  ZEROTH_INLINE void widen_row(T const* from, float* to, std::int64_t stride) const {
    constexpr std::int64_t most = 128;
    float wide[most] = {};
    for (std::int64_t first = 0; first < p.inner; first += most) {
      auto const count = std::min(most, p.inner - first);
      if (from != nullptr) {
#pragma GCC ivdep
        for (std::int64_t k = 0; k < count; ++k) {
          wide[k] = flushed(from[first + k]);
        }
      }
      for (std::int64_t k = 0; k < count; ++k) {
        to[(first + k) * stride] = wide[k];
      }
    }
  }
};

}  // namespace

std::int64_t panel_count(std::int64_t rows, std::int64_t inner) noexcept {
  auto const left = std::max(rows_at_once(rows, inner, WideTile::rows), rows_at_once(rows, inner, NarrowTile::rows));
  return inner * (WideTile::columns + left);
}

template <class T>
void multiply(ScaledProduct<T> const& product, float* panels) noexcept {
  if (current_isa() == Isa::avx512) {
    with_best_isa(ByTiles<WideTile, T>{product, panels});
  } else {
    with_best_isa(ByTiles<NarrowTile, T>{product, panels});
  }
  mirror(product);
}
template void multiply(ScaledProduct<bf16> const& product, float* panels) noexcept;
template void multiply(ScaledProduct<fp16> const& product, float* panels) noexcept;

void multiply(ScaledProduct<bf16> const& product, Multiply const& by, float* sums) {
  auto const& p = product;
  by({p.left, p.right, p.transposes_right, sums, p.rows, p.inner, p.columns, p.symmetric});
  with_best_isa(StoreAll{p, sums});
  mirror(p);
}

}  // namespace zeroth::optim
