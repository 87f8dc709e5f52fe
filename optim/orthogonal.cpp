// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>
#include <utility>

#include "gram_iteration.hpp"
#include "muon_element.hpp"
#include "scaled_product.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::optim {
namespace {

constexpr std::int64_t aligned(std::int64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// The bytes of [n, m] in 16 bits.
std::int64_t wide_bytes(std::int64_t n, std::int64_t m) noexcept { return aligned(n * m * bytes_of(Dtype::bf16)); }

/// Copies a matrix of [rows, columns], transposed.
template <class From, class To>
void transpose(From const* from, To* to, std::int64_t rows, std::int64_t columns) noexcept {
  constexpr std::int64_t block = 32;
  for (std::int64_t row = 0; row < rows; row += block) {
    for (std::int64_t column = 0; column < columns; ++column) {
      for (auto i = row; i < std::min(rows, row + block); ++i) {
        to[column * rows + i] = from_float<To>(to_float(from[i * columns + column]));
      }
    }
  }
}

/// An iteration on x, [n, m] with n <= m, in bf16 or fp16.
template <class T>
class Iteration {
 public:
  /// Cuts the workspace, and copies the matrix into x, divided by its norm: then no singular value exceeds 1.
  explicit Iteration(OrthogonalArgs const& args)
      : args_{args}, n_{std::min(args.rows, args.columns)}, m_{std::max(args.rows, args.columns)} {
    auto* memory = args.workspace;
    auto const take = [&](std::int64_t columns) {
      return reinterpret_cast<T*>(std::exchange(memory, memory + wide_bytes(n_, columns)));
    };
    x_ = take(m_);
    next_ = take(m_);
    gram_ = take(n_);
    factor_ = take(n_);
    if (is_by_gram()) {
      polynomial_ = take(n_);
      spare_ = take(n_);
    }
    scratch_ = reinterpret_cast<float*>(memory);
    load(reinterpret_cast<bf16*>(next_));
  }

  void run() {
    if (is_by_gram()) {
      iterate_on_gram(args_.rule->steps, *this);
    } else {
      iterate();
    }
    if (is_tall()) {
      transpose(x_, args_.matrix, n_, m_);
    } else {
      std::transform(x_, x_ + n_ * m_, args_.matrix, [](T value) { return from_float<bf16>(to_float(value)); });
    }
  }

  // for iterate_on_gram()

  void gram() { multiply_by({x_, x_, true, nullptr, gram_, n_, m_, n_, 1, 0, true}); }
  void polynomial() {
    multiply_by({gram_, gram_, false, gram_, polynomial_, n_, n_, n_, newton_schulz.of_x5, newton_schulz.of_x3, true});
  }
  void begin() {
    std::copy_n(polynomial_, n_ * n_, factor_);
    for (std::int64_t i = 0; i < n_ * n_; i += n_ + 1) {
      factor_[i] = from_float<T>(to_float(factor_[i]) + newton_schulz.of_x);
    }
  }
  void extend() {
    multiply_by({polynomial_, factor_, false, factor_, spare_, n_, n_, n_, 1, newton_schulz.of_x, true});
    std::swap(factor_, spare_);
  }
  void advance() {
    multiply_by({polynomial_, gram_, false, gram_, spare_, n_, n_, n_, 1, newton_schulz.of_x, true});
    multiply_by({polynomial_, spare_, false, spare_, gram_, n_, n_, n_, 1, newton_schulz.of_x, true});
  }
  void apply(bool last) {
    multiply_by({factor_, x_, false, nullptr, next_, n_, n_, m_, last ? result_factor() : 1.0F, 0, false});
    std::swap(x_, next_);
  }

 private:
  OrthogonalArgs const& args_;
  std::int64_t n_, m_;
  T *x_ = nullptr, *next_ = nullptr;            ///< [n, m]
  T *gram_ = nullptr, *factor_ = nullptr;       ///< [n, n]
  T *polynomial_ = nullptr, *spare_ = nullptr;  ///< [n, n]; only with the method `gram`
  float* scratch_ = nullptr;                    ///< Scratch of multiply().

  [[nodiscard]] bool is_by_gram() const noexcept { return by_gram(args_.rule->method, args_.rows, args_.columns); }
  [[nodiscard]] bool is_tall() const noexcept { return args_.rows > args_.columns; }
  [[nodiscard]] float result_factor() const noexcept { return adjustment(*args_.rule, args_.rows, args_.columns); }

  void load(bf16* wide) {
    if (is_tall()) {
      transpose(args_.matrix, wide, args_.rows, args_.columns);
    } else {
      std::copy_n(args_.matrix, n_ * m_, wide);
    }
    double squares = 0;
    for (std::int64_t i = 0; i < n_ * m_; ++i) {
      auto const value = static_cast<double>(to_float(wide[i]));
      squares += value * value;
    }
    float const norm = matrix_norm(squares);
    std::transform(wide, wide + n_ * m_, x_, [norm](bf16 value) { return from_float<T>(to_float(value) / norm); });
  }

  void iterate() {
    for (int step = 1; step <= args_.rule->steps; ++step) {
      // gram = x x^T, factor = of_x3 gram + of_x5 gram gram, next = of_x x + factor x
      gram();
      multiply_by({gram_, gram_, false, gram_, factor_, n_, n_, n_, newton_schulz.of_x5, newton_schulz.of_x3, true});
      float const scale = step == args_.rule->steps ? result_factor() : 1.0F;
      multiply_by({factor_, x_, false, x_, next_, n_, n_, m_, scale, scale * newton_schulz.of_x, false});
      std::swap(x_, next_);
    }
  }

  void multiply_by(ScaledProduct<T> const& product) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (args_.rule->multiply) {
        return multiply(product, args_.rule->multiply, scratch_);
      }
    }
    multiply(product, scratch_);
  }
};

}  // namespace

std::int64_t orthogonal_workspace_bytes(Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept {
  auto const n = std::min(rows, columns), m = std::max(rows, columns);
  auto const scratch = rule.multiply ? n * m : std::max(panel_count(n, m), panel_count(n, n));
  return 2 * wide_bytes(n, m) + (by_gram(rule.method, n, m) ? 4 : 2) * wide_bytes(n, n) +
         scratch * bytes_of(Dtype::fp32);
}

double orthogonal_operations(Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept {
  auto const n = static_cast<double>(std::min(rows, columns)), m = static_cast<double>(std::max(rows, columns));
  if (!by_gram(rule.method, rows, columns)) {
    return rule.steps * (3 * n * n * m + n * n * n);
  }
  auto const products = GramProducts::of(rule.steps);
  return (products.of_x + 2 * products.applied) * n * n * m + products.of_square * n * n * n;
}

void orthogonalise(OrthogonalArgs const& args) {
  if (args.scalars->skip) {
    return;
  }
  if (args.rule->method == NewtonSchulzMethod::gram) {
    Iteration<fp16>{args}.run();
  } else {
    Iteration<bf16>{args}.run();
  }
}

}  // namespace zeroth::optim
