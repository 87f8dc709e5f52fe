// SPDX-License-Identifier: Apache-2.0
/// The innermost loop of a product of matrices: the sums of one tile, which stay in registers.
#pragma once
#include <cstdint>

namespace zeroth::optim {

/// Tiles for AVX-512, with 24 of its 32 registers, and for other instruction sets.
struct WideTile {
  static constexpr std::int64_t rows = 12, columns = 32;
  /// Computes sums [rows, columns] over `inner` terms, each in order, of left [inner, rows] and right [inner, columns].
  /// All are aligned to 64 bytes but `left`.
  static void multiply(float const* left, float const* right, std::int64_t inner, float* sums) noexcept;
};
struct NarrowTile {
  static constexpr std::int64_t rows = 6, columns = 16;
  /// Like WideTile::multiply().
  static void multiply(float const* left, float const* right, std::int64_t inner, float* sums) noexcept;
};

}  // namespace zeroth::optim
