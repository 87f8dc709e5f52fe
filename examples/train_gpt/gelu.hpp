// SPDX-License-Identifier: Apache-2.0
/// GELU in its tanh form, which Hugging Face calls gelu_new.
#pragma once
#include "parameters.hpp"

namespace gpt {

namespace detail {
template <class S>
inline constexpr S sqrt_2_over_pi = S(0.7978845608028653558798921198687637);
template <class S>
inline constexpr S cubic = S(0.044715);
}  // namespace detail

template <class S>
void gelu(In<S> x, Out<S> y) {
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    auto const u = x.row(i).array();
    y.row(i).array() = S(0.5) * u * (1 + (detail::sqrt_2_over_pi<S> * u * (1 + detail::cubic<S> * u.square())).tanh());
  }
}

/// The output once more, and its slope: one tanh serves both.
template <class S>
void gelu_and_slope(In<S> x, Out<S> y, Out<S> slope) {
  RowVector<S> tanh(x.cols());
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    auto const u = x.row(i).array();
    auto const t = tanh.array();
    tanh.array() = (detail::sqrt_2_over_pi<S> * u * (1 + detail::cubic<S> * u.square())).tanh();
    y.row(i).array() = S(0.5) * u * (1 + t);
    slope.row(i).array() =
        S(0.5) * (1 + t) * (1 + u * (1 - t) * detail::sqrt_2_over_pi<S> * (1 + 3 * detail::cubic<S> * u.square()));
  }
}

}  // namespace gpt
