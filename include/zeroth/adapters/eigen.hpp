// SPDX-License-Identifier: Apache-2.0
/// Views as Eigen maps. Found by argument-dependent lookup: write as_eigen(p[weight]).
#pragma once
#include <Eigen/Core>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "zeroth/engine/guards.hpp"

namespace zeroth {

/// A row-major matrix; parameters are row-major.
template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// The type of a one-dimensional parameter.
template <class Scalar>
using RowVector = Eigen::Matrix<Scalar, 1, Eigen::Dynamic>;

namespace detail {
template <class T>
struct EigenScalar {
  using type = T;
};
template <>
struct EigenScalar<bf16> {
  using type = Eigen::bfloat16;
};
template <>
struct EigenScalar<fp16> {
  using type = Eigen::half;
};
template <class T>
using ScalarOf = std::conditional_t<std::is_const_v<T>, typename EigenScalar<std::remove_const_t<T>>::type const,
                                    typename EigenScalar<T>::type>;
template <class S, std::size_t D>
using Plain = std::conditional_t<D == 1, RowVector<std::remove_const_t<S>>, Matrix<std::remove_const_t<S>>>;
template <class S, std::size_t D>
using Map = Eigen::Map<std::conditional_t<std::is_const_v<S>, Plain<S, D> const, Plain<S, D>>>;
}  // namespace detail

/// A row vector (D == 1) or a row-major matrix (D == 2).
template <class T, std::size_t D>
  requires(D == 1 || D == 2)
[[nodiscard]] detail::Map<detail::ScalarOf<T>, D> as_eigen(View<T, D> view) {
  using S = detail::ScalarOf<T>;
  static_assert(sizeof(S) == sizeof(T));
  return {reinterpret_cast<S*>(view.data()), D == 2 ? view.extent(0) : 1, view.extent(D - 1)};
}

/// Like as_eigen(), for math in fp32: returns a map of a float parameter, or a converted copy of a bf16 or fp16 one.
template <Element T, std::size_t D>
  requires(D == 1 || D == 2)
[[nodiscard]] auto widen(View<T const, D> view) {
  if constexpr (std::same_as<T, float>) {
    return as_eigen(view);  // not cast<float>(): that would refer to the dead map
  } else {
    return detail::Plain<float, D>{as_eigen(view).template cast<float>()};
  }
}

/// A gradient to which one expression may be added. It is assigned at beta 0 and added at beta 1. An fp32 gradient
/// needs no temporary.
template <Element T, std::size_t D>
class GradientSum {
 public:
  /// Takes a gradient from a guard, which must outlive it.
  explicit GradientSum(Gradient<T, D>&& gradient)
      : beta_{gradient.beta()}, map_{as_eigen(View<T, D>{gradient.data(), gradient.shape()})} {}
  /// Adds the one expression. It has the gradient's shape, and is computed in fp32 whatever the gradient's type. Runs
  /// on the calling thread.
  template <class Derived>
  void operator+=(Eigen::MatrixBase<Derived> const& expression) && {
    using S = detail::ScalarOf<T>;
    if constexpr (std::same_as<T, float>) {
      if (beta_ == 0) {
        map_.noalias() = expression.derived();
      } else {
        map_.noalias() += expression.derived();
      }
    } else {  // evaluated in fp32 and rounded once: a cast inside the product would multiply in 16 bits
      detail::Plain<float, D> const value = expression.derived();
      if (beta_ == 0) {
        map_ = value.template cast<S>();
      } else {
        map_ = (map_.template cast<float>() + value).template cast<S>();
      }
    }
  }

 private:
  float beta_;
  detail::Map<detail::ScalarOf<T>, D> map_;
};
/// Usage: `as_eigen(p.grad(weight)) += expression;`
template <Element T, std::size_t D>
  requires(D == 1 || D == 2)
[[nodiscard]] GradientSum<T, D> as_eigen(Gradient<T, D>&& gradient) { return GradientSum<T, D>{std::move(gradient)}; }

}  // namespace zeroth
