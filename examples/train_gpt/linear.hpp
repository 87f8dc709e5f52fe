// SPDX-License-Identifier: Apache-2.0
/// y = x W + b
#pragma once
#include "math.hpp"
#include "product.hpp"

namespace gpt {

template <class Device>
class Linear {
 public:
  using Matrix = Activations<Device>;

  explicit Linear(LinearParams const& params) : params_{params} {}

  template <class Open>
  void forward(Open const& p, Matrix const& x, Matrix& y) const {
    p.device.multiply(product(p, x, y, Epilogue::bias));
  }
  /// y = residual + x W + b
  template <class Open>
  void forward(Open const& p, Matrix const& x, Matrix const& residual, Matrix& y) const {
    auto sum = product(p, x, y, Epilogue::bias);
    sum.beta = 1;
    sum.addend = residual.data();
    p.device.multiply(sum);
  }
  /// inner = x W + b, y = gelu(inner)
  template <class Open>
  void forward_gelu(Open const& p, Matrix const& x, Matrix& inner, Matrix& y) const {
    auto sum = product(p, x, y, Epilogue::bias_gelu);
    sum.inner = inner.data();
    p.device.multiply(sum);
  }

  /// y = x W, an addend of a sum over tensor ranks. The bias is added to the sum later.
  template <class Open>
  void forward_part(Open const& p, Matrix const& x, Matrix& y) const {
    p.device.multiply({.a = operand(x), .b = operand(p[params_.weight]), .out = result(y)});
  }
  /// y += b
  template <class Open>
  void add_bias(Open const& p, Matrix& y) const {
    p.device.add_to_rows(p[params_.bias], y);
  }
  /// This rank's numbers of input and output channels, out of all.
  [[nodiscard]] auto const& shape() const { return params_.weight.shape(); }
  [[nodiscard]] bool is_divided() const { return params_.weight.shape() != params_.weight.global_shape(); }

  /// `dx` may share the memory of `x`.
  template <class Open>
  void backward(Open const& p, Matrix const& x, Matrix const& dy, Matrix& dx) const {
    backward_weights(p, x, dy);
    backward_inputs(p, dy, dx);
  }
  template <class Open>
  void backward_inputs(Open const& p, Matrix const& dy, Matrix& dx) const {
    p.device.multiply(back(p, dy, dx));
  }
  template <class Open>
  void backward_weights(Open const& p, Matrix const& x, Matrix const& dy) const {
    p.device.multiply(contribution(transposed(operand(x)), operand(dy), p.grad(params_.weight)));
    p.device.add_column_sums(dy, p.grad(params_.bias));
  }
  /// For x = gelu(inner): computes `dinner`, which may share the memory of `x`.
  template <class Open>
  void backward_gelu(Open const& p, Matrix const& x, Matrix& inner, Matrix const& dy, Matrix& dinner) const {
    backward_weights(p, x, dy);
    backward_gelu_inputs(p, inner, dy, dinner);
  }
  template <class Open>
  void backward_gelu_inputs(Open const& p, Matrix& inner, Matrix const& dy, Matrix& dinner) const {
    auto slope = back(p, dy, dinner);
    slope.epilogue = Epilogue::gelu_slope;
    slope.inner = inner.data();
    p.device.multiply(slope);
  }

 private:
  template <class Open>
  [[nodiscard]] Product product(Open const& p, Matrix const& x, Matrix& y, Epilogue epilogue) const {
    return {.a = operand(x),
            .b = operand(p[params_.weight]),
            .out = result(y),
            .epilogue = epilogue,
            .bias = p[params_.bias].data()};
  }
  template <class Open>
  [[nodiscard]] Product back(Open const& p, Matrix const& dy, Matrix& dx) const {
    return {.a = operand(dy), .b = transposed(operand(p[params_.weight])), .out = result(dx)};
  }

  LinearParams params_;
};

}  // namespace gpt
