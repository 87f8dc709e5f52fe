// SPDX-License-Identifier: Apache-2.0
/// Rows to mean 0 and variance 1, then scaled and shifted.
#pragma once
#include "math.hpp"

namespace gpt {

/// What backward needs beside the input itself, per row.
template <class Device>
struct LayerNormTape {
  Sums<Device> mean, rstd;
};

template <class Device>
class LayerNorm {
 public:
  using Matrix = Activations<Device>;
  using Tape = LayerNormTape<Device>;

  explicit LayerNorm(LayerNormParams const& params) : params_{params} {}

  template <class Open>
  void forward(Open const& p, Matrix const& x, Tape& tape, Matrix& y) const {
    tape.mean.resize(1, x.rows());
    tape.rstd.resize(1, x.rows());
    p.device.layer_norm(x, p[params_.weight], p[params_.bias], tape, y);
  }
  /// The output once more. Cheaper to compute twice than to keep.
  template <class Open>
  void again(Open const& p, Matrix const& x, Tape const& tape, Matrix& y) const {
    p.device.layer_norm_again(x, p[params_.weight], p[params_.bias], tape, y);
  }
  /// Adds to `dx`.
  template <class Open>
  void backward(Open const& p, Matrix const& x, Tape const& tape, Matrix const& dy, Matrix& dx) const {
    p.device.layer_norm_backward(x, p[params_.weight], tape, dy, dx, p.grad(params_.weight), p.grad(params_.bias));
  }
  /// The same, but what goes to the gradients of parameters is left in `sums`.
  template <class Open>
  void backward_inputs(Open const& p, Matrix const& x, Tape const& tape, Matrix const& dy, Matrix& dx,
                       Sums<Device>& sums) const {
    sums.resize(2, x.cols());
    p.device.layer_norm_backward_inputs(x, p[params_.weight], tape, dy, dx, sums);
  }
  template <class Open>
  void backward_weights(Open const& p, Sums<Device> const& sums) const {
    p.device.layer_norm_backward_weights(sums, p.grad(params_.weight), p.grad(params_.bias));
  }

 private:
  LayerNormParams params_;
};

}  // namespace gpt
