// SPDX-License-Identifier: Apache-2.0
/// Rows to mean 0 and variance 1, then scaled and shifted.
#pragma once
#include <cmath>

#include "parameters.hpp"
#include "units.hpp"

namespace gpt {

template <class S>
class LayerNorm {
 public:
  /// What backward needs beside the input itself, per row.
  struct Tape {
    RowVector<S> mean, rstd;
  };

  explicit LayerNorm(LayerNormParams const& params) : params_{params} {}

  void forward(Parameters<S> const& p, In<S> x, Tape& tape, Out<S> y) const {
    tape.mean.resize(x.rows());
    tape.rstd.resize(x.rows());
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      auto const row = x.row(i).array();
      S const mean = row.mean();
      tape.mean[i] = mean;
      tape.rstd[i] = 1 / std::sqrt((row - mean).square().mean() + epsilon);
    }
    again(p, x, tape, y);
  }
  /// The output once more. Cheaper to compute twice than to keep.
  void again(Parameters<S> const& p, In<S> x, Tape const& tape, Out<S> y) const {
    auto const weight = p[params_.weight].array();
    auto const bias = p[params_.bias].array();
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      y.row(i).array() = (x.row(i).array() - tape.mean[i]) * tape.rstd[i] * weight + bias;
    }
  }
  /// Adds to `dx`.
  void backward(Gradients<S> const& p, In<S> x, Tape const& tape, In<S> dy, Out<S> dx) const {
    auto const weight = p[params_.weight].array();
    auto weight_gradient = p.grad(params_.weight);
    auto bias_gradient = p.grad(params_.bias);
    auto dweight = weight_gradient.accumulator().array();
    auto dbias = bias_gradient.accumulator().array();
    RowVector<S> normal(x.cols()), dnormal(x.cols());
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      auto const dout = dy.row(i).array();
      normal.array() = (x.row(i).array() - tape.mean[i]) * tape.rstd[i];
      dnormal.array() = dout * weight;
      dweight += dout * normal.array();
      dbias += dout;
      S const mean = dnormal.mean();
      S const along = dnormal.dot(normal) / static_cast<S>(x.cols());
      dx.row(i).array() += (dnormal.array() - mean - normal.array() * along) * tape.rstd[i];
    }
  }

 private:
  static constexpr S epsilon = S(1e-5);
  LayerNormParams params_;
};

}  // namespace gpt
