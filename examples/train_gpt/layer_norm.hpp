// SPDX-License-Identifier: Apache-2.0
/// LayerNorm: normalises rows to mean 0 and variance 1, then scales and shifts them.
#pragma once
#include "math.hpp"

namespace gpt {

/// The data per row that backward needs in addition to the input.
template <class Device>
struct LayerNormTape {
  Sums<Device> mean, rstd;
};

/// The rows of `all` that this rank has between layers: `all` itself, or a copy in `own` if tensor ranks divide rows.
template <class Open, class Matrix>
[[nodiscard]] Matrix const& own_rows(Open const& p, Matrix const& all, Matrix& own) {
  if constexpr (requires { p.device.divides_rows(); }) {
    if (p.device.divides_rows()) {
      p.device.own_rows(all, own);
      return own;
    }
  }
  return all;
}

/// All rows of `own`: `own` itself, or the rows of all tensor ranks, gathered in `all`, if they divide rows.
template <class Open, class Matrix>
[[nodiscard]] Matrix const& all_rows(Open const& p, Matrix const& own, Matrix& all) {
  if (!p.device.divides_rows()) {
    return own;
  }
  p.device.leave_backward(own, all).wait();
  return all;
}

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
  /// Computes all rows of `y`. If tensor ranks divide rows, this rank computes `own`, and they gather `y`.
  template <class Open>
  void forward_to_all(Open const& p, Matrix const& x, Tape& tape, Matrix& own, Matrix& y) const {
    to_all(p, x, own, y, [&](Matrix& rows) { forward(p, x, tape, rows); });
  }
  template <class Open>
  void again_to_all(Open const& p, Matrix const& x, Tape const& tape, Matrix& own, Matrix& y) const {
    to_all(p, x, own, y, [&](Matrix& rows) { again(p, x, tape, rows); });
  }
  /// Recomputes the output, which is cheaper than keeping it.
  template <class Open>
  void again(Open const& p, Matrix const& x, Tape const& tape, Matrix& y) const {
    p.device.layer_norm_again(x, p[params_.weight], p[params_.bias], tape, y);
  }
  /// Adds to `dx`.
  template <class Open>
  void backward(Open const& p, Matrix const& x, Tape const& tape, Matrix const& dy, Matrix& dx) const {
    p.device.layer_norm_backward(x, p[params_.weight], tape, dy, dx, p.grad(params_.weight), p.grad(params_.bias));
  }
  /// The same, but leaves the gradients of parameters in `sums`.
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
  template <class Open, class F>
  static void to_all(Open const& p, Matrix const& x, Matrix& own, Matrix& y, F const& compute) {
    if constexpr (Device::divides_layers) {
      if (p.device.divides_rows()) {
        own.resize(x.rows(), x.cols());
        compute(own);
        p.device.enter(own, y).wait();
        return;
      }
    }
    y.resize(x.rows(), x.cols());
    compute(y);
  }

  LayerNormParams params_;
};

}  // namespace gpt
