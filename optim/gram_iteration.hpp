// SPDX-License-Identifier: Apache-2.0
/// The iteration of Newton and Schulz on the Gram matrix (Dao-AILab 2026, "Gram Newton-Schulz"): products of a long
/// matrix only when it restarts and at the end.
#pragma once
#include <cstdint>

#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

/// Whether a matrix is iterated on by its Gram matrix: a square one would need as many operations. DeepSpeed decides
/// the same.
[[nodiscard]] constexpr bool by_gram(NewtonSchulzMethod method, std::int64_t rows, std::int64_t columns) noexcept {
  return method == NewtonSchulzMethod::gram && rows != columns;
}

/// Whether the iteration applies its polynomial to x before `step`, and restarts with the Gram matrix of the result,
/// because errors in fp16 grow from step to step. DeepSpeed also restarts before the third step.
[[nodiscard]] constexpr bool begins_again(int step) noexcept { return step % 3 == 2; }

/// Runs `steps` steps. With r = x x^T, a step is x <- (of_x + p) x with p = of_x3 r + of_x5 r r. The product of the
/// polynomials of several steps is q, and all of these commute. `products` has:
///     gram()          r = x x^T
///     polynomial()    p = of_x3 r + of_x5 r r
///     begin()         q = of_x + p
///     extend()        q <- (of_x + p) q
///     advance()       r <- (of_x + p) r (of_x + p)
///     apply(last)     x <- q x; `last` for the result
template <class Products>
constexpr void iterate_on_gram(int steps, Products&& products) {
  for (int step = 0; step < steps; ++step) {
    bool const fresh = step == 0 || begins_again(step);
    if (begins_again(step)) {
      products.apply(false);
    }
    if (fresh) {
      products.gram();
    }
    products.polynomial();
    fresh ? products.begin() : products.extend();
    if (step + 1 < steps && !begins_again(step + 1)) {
      products.advance();
    }
  }
  products.apply(true);
}

/// How many products of each kind an iteration has.
struct GramProducts {
  int of_x = 0;       ///< x x^T: n^2 m terms.
  int applied = 0;    ///< q x: n^2 m terms.
  int of_square = 0;  ///< Products of n x n matrices: n^3 terms.
  int begun = 0;      ///< Sums with the identity.

  [[nodiscard]] static constexpr GramProducts of(int steps) noexcept {
    GramProducts counts;
    iterate_on_gram(steps, counts);
    return counts;
  }
  constexpr void gram() noexcept { ++of_x; }
  constexpr void polynomial() noexcept { ++of_square; }
  constexpr void begin() noexcept { ++begun; }
  constexpr void extend() noexcept { ++of_square; }
  constexpr void advance() noexcept { of_square += 2; }
  constexpr void apply(bool /*last*/) noexcept { ++applied; }
};

}  // namespace zeroth::optim
