// SPDX-License-Identifier: Apache-2.0
/// LayerNorm, one row at a time.
#pragma once
#include <cmath>

#include "cpu/kernels/rows.hpp"
#include "cpu/memory.hpp"

namespace gpt::cpu {

/// The parameters that LayerNorm reads from its unit.
template <class T>
struct NormParameters {
  RowArray<WideOf<T>> weight, bias;

  template <class View>
  NormParameters(View const& weights, View const& biases) : weight(weights.extent(0)), bias(biases.extent(0)) {
    weight = widened(weights.data(), weights.extent(0), weight);
    bias = widened(biases.data(), biases.extent(0), bias);
  }
};

template <class T>
void layer_norm_statistics(Matrix<T> const& x, WideOf<T>* mean, WideOf<T>* rstd) {
  using S = WideOf<T>;
  constexpr S epsilon = S(1e-5);
  RowArray<S> wide(x.cols());
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    auto const row = widened(x.data() + i * x.stride(), x.cols(), wide);
    mean[i] = row.mean();
    rstd[i] = 1 / std::sqrt((row - mean[i]).square().mean() + epsilon);
  }
}

template <class T>
void layer_norm(Matrix<T> const& x, NormParameters<T> const& p, WideOf<T> const* mean, WideOf<T> const* rstd,
                Matrix<T>& y) {
  RowArray<WideOf<T>> wide(x.cols());
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    auto const row = widened(x.data() + i * x.stride(), x.cols(), wide);
    store((row - mean[i]) * rstd[i] * p.weight + p.bias, y.data() + i * y.stride(), wide);
  }
}

/// Adds to `dx`; `dweight` and `dbias` are the sums over the rows.
template <class T>
void layer_norm_backward(Matrix<T> const& x, RowArray<WideOf<T>> const& weight, WideOf<T> const* mean,
                         WideOf<T> const* rstd, Matrix<T> const& dy, Matrix<T>& dx, RowArray<WideOf<T>>& dweight,
                         RowArray<WideOf<T>>& dbias) {
  using S = WideOf<T>;
  auto const cols = x.cols();
  RowArray<S> wide_x(cols), wide_dy(cols), wide_dx(cols), normal(cols), dnormal(cols);
  dweight.setZero(cols);
  dbias.setZero(cols);
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    auto const dout = widened(dy.data() + i * dy.stride(), cols, wide_dy);
    normal = (widened(x.data() + i * x.stride(), cols, wide_x) - mean[i]) * rstd[i];
    dnormal = dout * weight;
    dweight += dout * normal;
    dbias += dout;
    S const shift = dnormal.mean();
    S const along = (dnormal * normal).sum() / static_cast<S>(cols);
    T* const to = dx.data() + i * dx.stride();
    store(widened(to, cols, wide_dx) + (dnormal - shift - normal * along) * rstd[i], to, wide_dx);
  }
}

}  // namespace gpt::cpu
