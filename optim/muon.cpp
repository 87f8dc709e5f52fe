// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/muon.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "muon_element.hpp"
#include "scaled_product.hpp"

namespace zeroth::optim {
namespace {

template <class G>
struct Direction {
  DirectionArgs const& args;

  ZEROTH_INLINE void operator()() const {
    auto const* const gradient = static_cast<G const*>(args.gradient);
    auto* const momentum = args.momentum;
    auto* const direction = args.direction;
    float const scale = args.scalars->gradient_scale;
    auto const factors = direction_factors_of(*args.rule);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < args.count; ++i) {
      direction[i] = from_float<bf16>(move_momentum(factors, to_float(gradient[i]) * scale, momentum[i]));
    }
  }
};

// ---- the iteration --------------------------------------------------------------------------------------------------

constexpr std::int64_t aligned(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// The memory of an iteration on n x m, n <= m.
struct Workspace {
  bf16 *x, *next;       ///< [n, m]
  bf16 *gram, *factor;  ///< [n, n]
  float* scratch;       ///< What multiply() needs.
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
  float const norm = matrix_norm(squares);
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

std::int64_t orthogonal_workspace_bytes(Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept {
  auto const n = std::min(rows, columns), m = std::max(rows, columns);
  auto const scratch = rule.multiply ? n * m : std::max(panel_count(n, m), panel_count(n, n));
  return 2 * wide_bytes(n, m) + 2 * wide_bytes(n, n) + scratch * bytes_of(Dtype::fp32);
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
  auto [x, next, gram, factor, scratch] = cut(args.workspace, n, m);
  if (tall) {
    transpose(args.matrix, x, args.rows, args.columns);
  } else {
    std::copy_n(args.matrix, n * m, x);
  }
  normalise(x, n * m);
  auto const product = [&, scratch = scratch](ScaledProduct const& of) {
    args.rule->multiply ? multiply(of, args.rule->multiply, scratch) : multiply(of, scratch);
  };
  float const result_factor = adjustment(*args.rule, args.rows, args.columns);
  for (int step = 1; step <= args.rule->steps; ++step) {
    // gram = x x^T, factor = of_x3 gram + of_x5 gram gram, next = of_x x + factor x
    product({x, x, true, nullptr, gram, n, m, n, 1, 0, true});
    product({gram, gram, false, gram, factor, n, n, n, newton_schulz.of_x5, newton_schulz.of_x3, true});
    float const scale = step == args.rule->steps ? result_factor : 1.0F;
    product({factor, x, false, x, next, n, n, m, scale, scale * newton_schulz.of_x, false});
    std::swap(x, next);
  }
  if (tall) {
    transpose(x, args.matrix, n, m);
  } else {
    std::copy_n(x, n * m, args.matrix);
  }
}

}  // namespace zeroth::optim
