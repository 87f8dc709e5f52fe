// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/muon.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/isa.hpp"

namespace zeroth::optim {
namespace {

constexpr float smallest_norm = 1e-7F;
/// The coefficients of x, x^3 and x^5 (Jordan et al. 2024).
constexpr float of_x = 3.4445F, of_x3 = -4.7750F, of_x5 = 2.0315F;

/// The mean of `a` and `b` with weight `w` of `b`, as torch.lerp rounds it.
ZEROTH_INLINE float mean(float a, float b, float w) noexcept {
  return w < 0.5F ? a + w * (b - a) : b - (b - a) * (1.0F - w);
}

template <class G>
struct Direction {
  DirectionArgs const& args;

  ZEROTH_INLINE void operator()() const {
    auto const* const gradient = static_cast<G const*>(args.gradient);
    auto* const momentum = args.momentum;
    auto* const direction = args.direction;
    float const scale = args.scalars->gradient_scale;
    auto const beta = static_cast<float>(args.rule->momentum);
    auto const rest = static_cast<float>(1 - args.rule->momentum);
    bool const nesterov = args.rule->nesterov;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < args.count; ++i) {
      float const g = to_float(gradient[i]) * scale;
      float const next = mean(momentum[i], g, rest);
      momentum[i] = next;
      direction[i] = from_float<bf16>(nesterov ? mean(g, next, beta) : next);
    }
  }
};

// ---- products -------------------------------------------------------------------------------------------------------

using Lanes [[gnu::vector_size(64), gnu::may_alias]] = float;
constexpr std::int64_t lanes = 16;
constexpr std::int64_t tile_rows = 4, tile_vectors = 2, tile_columns = tile_vectors * lanes;

/// Computes result = product_factor * left * right + addend_factor * addend, [rows, columns], over `inner` terms.
struct Product {
  bf16 const* left;   ///< [rows, inner]
  bf16 const* right;  ///< [inner, columns], or transposed
  bool transposes_right;
  bf16 const* addend;  ///< [rows, columns], or null for 0
  bf16* result;        ///< [rows, columns], apart from the operands
  std::int64_t rows, inner, columns;
  float product_factor, addend_factor;
  bool symmetric;  ///< The result is known to be: only its lower half is computed.
  float* panels;   ///< [panel_count(inner)]
};

constexpr std::int64_t panel_count(std::int64_t inner) noexcept { return inner * (tile_rows + tile_columns); }

/// Runs a product by tiles, whose operands are widened to panels. Every sum adds its terms in order.
struct Multiply {
  Product p;

  ZEROTH_INLINE void operator()() const {
    auto* const of_right = p.panels;
    auto* const of_left = of_right + p.inner * tile_columns;
    for (std::int64_t column = 0; column < p.columns; column += tile_columns) {
      auto const some_columns = std::min(tile_columns, p.columns - column);
      widen_right(column, some_columns, of_right);
      for (auto row = p.symmetric ? column / tile_rows * tile_rows : 0; row < p.rows; row += tile_rows) {
        auto const some_rows = std::min(tile_rows, p.rows - row);
        widen_left(row, some_rows, of_left);
        Lanes sums[tile_rows][tile_vectors];
        multiply(of_left, of_right, sums);
        store(row, some_rows, column, some_columns, sums);
      }
    }
    if (p.symmetric) {
      for (std::int64_t i = 0; i < p.rows; ++i) {
        for (std::int64_t j = i + 1; j < p.columns; ++j) {
          p.result[i * p.columns + j] = p.result[j * p.columns + i];
        }
      }
    }
  }

  /// [inner, tile_columns]. Elements outside of the matrix are 0.
  ZEROTH_INLINE void widen_right(std::int64_t column, std::int64_t count, float* to) const {
    std::fill_n(to, count < tile_columns ? p.inner * tile_columns : 0, 0.0F);
    if (!p.transposes_right) {
      for (std::int64_t k = 0; k < p.inner; ++k) {
        widen(p.right + k * p.columns + column, count, to + k * tile_columns);
      }
      return;
    }
    for (std::int64_t j = 0; j < count; ++j) {
      auto const* const row = p.right + (column + j) * p.inner;
      for (std::int64_t k = 0; k < p.inner; ++k) {
        to[k * tile_columns + j] = to_float(row[k]);
      }
    }
  }

  /// [tile_rows, inner]
  ZEROTH_INLINE void widen_left(std::int64_t row, std::int64_t count, float* to) const {
    for (std::int64_t i = 0; i < tile_rows; ++i) {
      if (i < count) {
        widen(p.left + (row + i) * p.inner, p.inner, to + i * p.inner);
      } else {
        std::fill_n(to + i * p.inner, p.inner, 0.0F);
      }
    }
  }

  ZEROTH_INLINE static void widen(bf16 const* from, std::int64_t count, float* to) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = to_float(from[i]);
    }
  }

  ZEROTH_INLINE void multiply(float const* left, float const* right, Lanes (&sums)[tile_rows][tile_vectors]) const {
    Lanes local[tile_rows][tile_vectors] = {};
    for (std::int64_t k = 0; k < p.inner; ++k) {
      Lanes const first = *reinterpret_cast<Lanes const*>(right + k * tile_columns);
      Lanes const second = *reinterpret_cast<Lanes const*>(right + k * tile_columns + lanes);
      for (std::int64_t i = 0; i < tile_rows; ++i) {
        float const factor = left[i * p.inner + k];
        local[i][0] += factor * first;
        local[i][1] += factor * second;
      }
    }
    for (std::int64_t i = 0; i < tile_rows; ++i) {
      for (std::int64_t v = 0; v < tile_vectors; ++v) {
        sums[i][v] = local[i][v];
      }
    }
  }

  ZEROTH_INLINE void store(std::int64_t row, std::int64_t some_rows, std::int64_t column, std::int64_t some_columns,
                           Lanes const (&sums)[tile_rows][tile_vectors]) const {
    for (std::int64_t i = 0; i < some_rows; ++i) {
      auto const first = (row + i) * p.columns + column;
      for (std::int64_t j = 0; j < some_columns; ++j) {
        float const of_product = p.product_factor * sums[i][j / lanes][j % lanes];
        float const added = p.addend == nullptr ? 0.0F : p.addend_factor * to_float(p.addend[first + j]);
        p.result[first + j] = from_float<bf16>(of_product + added);
      }
    }
  }
};

// ---- the iteration --------------------------------------------------------------------------------------------------

constexpr std::int64_t aligned(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// The memory of an iteration on n x m, n <= m.
struct Workspace {
  bf16 *x, *next;       ///< [n, m]
  bf16 *gram, *factor;  ///< [n, n]
  float* panels;
};

std::int64_t wide_bytes(std::int64_t n, std::int64_t m) noexcept { return aligned(n * m * bytes_of(Dtype::bf16)); }

Workspace cut(std::byte* memory, std::int64_t n, std::int64_t m) noexcept {
  auto const take = [&](std::int64_t bytes) {
    auto* const piece = memory;
    memory += bytes;
    return piece;
  };
  auto const wide = [&](std::int64_t columns) { return reinterpret_cast<bf16*>(take(wide_bytes(n, columns))); };
  auto* const x = wide(m);
  auto* const next = wide(m);
  auto* const gram = wide(n);
  auto* const factor = wide(n);
  return {x, next, gram, factor, reinterpret_cast<float*>(memory)};
}

/// Copies a matrix of [rows, columns], transposed.
void transpose(bf16 const* from, bf16* to, std::int64_t rows, std::int64_t columns) noexcept {
  constexpr std::int64_t block = 32;
  for (std::int64_t row = 0; row < rows; row += block) {
    for (std::int64_t column = 0; column < columns; ++column) {
      for (auto i = row; i < std::min(rows, row + block); ++i) {
        to[column * rows + i] = from[i * columns + column];
      }
    }
  }
}

/// Divides by the norm: then no singular value exceeds 1.
void normalise(bf16* x, std::int64_t count) noexcept {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto const value = static_cast<double>(to_float(x[i]));
    squares += value * value;
  }
  auto const norm = std::max(static_cast<float>(std::sqrt(squares)), smallest_norm);
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = from_float<bf16>(to_float(x[i]) / norm);
  }
}

}  // namespace

void direction(DirectionArgs const& args) {
  if (!args.scalars->skip) {
    with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) { with_best_isa(Direction<G>{args}); });
  }
}

float adjustment(Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept {
  auto const [r, c] = std::pair{static_cast<double>(rows), static_cast<double>(columns)};
  return static_cast<float>(rule.adjust_rate == AdjustRate::original ? std::sqrt(std::max(1.0, r / c))
                                                                     : 0.2 * std::sqrt(std::max(r, c)));
}

std::int64_t orthogonal_workspace_bytes(std::int64_t rows, std::int64_t columns) noexcept {
  auto const n = std::min(rows, columns), m = std::max(rows, columns);
  return 2 * wide_bytes(n, m) + 2 * wide_bytes(n, n) + panel_count(m) * bytes_of(Dtype::fp32);
}

double orthogonal_operations(Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept {
  auto const n = static_cast<double>(std::min(rows, columns)), m = static_cast<double>(std::max(rows, columns));
  return rule.steps * (3 * n * n * m + n * n * n);
}

void orthogonalise(OrthogonalArgs const& args) {
  if (args.scalars->skip) {
    return;
  }
  bool const tall = args.rows > args.columns;
  auto const n = std::min(args.rows, args.columns), m = std::max(args.rows, args.columns);
  auto [x, next, gram, factor, panels] = cut(args.workspace, n, m);
  if (tall) {
    transpose(args.matrix, x, args.rows, args.columns);
  } else {
    std::copy_n(args.matrix, n * m, x);
  }
  normalise(x, n * m);
  float const result_factor = adjustment(*args.rule, args.rows, args.columns);
  for (int step = 1; step <= args.rule->steps; ++step) {
    // gram = x x^T, factor = of_x3 gram + of_x5 gram gram, next = of_x x + factor x
    with_best_isa(Multiply{{x, x, true, nullptr, gram, n, m, n, 1, 0, true, panels}});
    with_best_isa(Multiply{{gram, gram, false, gram, factor, n, n, n, of_x5, of_x3, true, panels}});
    float const scale = step == args.rule->steps ? result_factor : 1.0F;
    with_best_isa(Multiply{{factor, x, false, x, next, n, n, m, scale, scale * of_x, false, panels}});
    std::swap(x, next);
  }
  if (tall) {
    transpose(x, args.matrix, n, m);
  } else {
    std::copy_n(x, n * m, args.matrix);
  }
}

}  // namespace zeroth::optim
