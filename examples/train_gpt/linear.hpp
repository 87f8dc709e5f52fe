/// y = x W + b
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "parameters.hpp"

namespace gpt {

inline constexpr zeroth::ParamOptions no_decay{.weight_decay_factor = 0};  ///< Of everything with one dimension.

/// Calls `f(first, count)` for rows in groups that stay in a core's own cache: Eigen's products of such groups are up
/// to a quarter faster than the product of all rows.
template <class F>
void each_panel(Eigen::Index rows, F&& f) {
  constexpr Eigen::Index panel = 256;
  for (Eigen::Index first = 0; first < rows; first += panel) {
    f(first, std::min(panel, rows - first));
  }
}

template <class S>
class Linear {
 public:
  Linear(zeroth::Model& model, zeroth::Unit unit, std::string const& name, std::int64_t in, std::int64_t out,
         float stddev)
      : weight_{model.param(unit, name + ".weight", {in, out}, zeroth::Normal{stddev})},
        bias_{model.param(unit, name + ".bias", {out}, zeroth::Constant{0}, no_decay)} {}

  void forward(Parameters<S> const& p, In<S> x, Out<S> y) const {
    auto const weight = p[weight_];
    auto const bias = p[bias_];
    each_panel(x.rows(), [&](auto first, auto count) {
      auto out = y.middleRows(first, count);
      for (Eigen::Index i = 0; i < count; ++i) {
        out.row(i) = bias;
      }
      out.noalias() += x.middleRows(first, count) * weight;
    });
  }
  /// y = residual + x W + b
  void forward(Parameters<S> const& p, In<S> x, In<S> residual, Out<S> y) const {
    auto const weight = p[weight_];
    auto const bias = p[bias_];
    each_panel(x.rows(), [&](auto first, auto count) {
      auto out = y.middleRows(first, count);
      for (Eigen::Index i = 0; i < count; ++i) {
        out.row(i) = residual.row(first + i) + bias;
      }
      out.noalias() += x.middleRows(first, count) * weight;
    });
  }
  /// `dx` may be the memory of `x`.
  void backward(Gradients<S> const& p, In<S> x, In<S> dy, Out<S> dx) const {
    auto const weight = p[weight_];
    auto dweight = p.grad(weight_);
    auto dbias = p.grad(bias_);
    each_panel(x.rows(), [&](auto first, auto count) {
      auto const dout = dy.middleRows(first, count);
      dweight += x.middleRows(first, count).transpose() * dout;
      dbias += dout.colwise().sum();
      dx.middleRows(first, count).noalias() = dout * weight.transpose();
    });
  }

 private:
  Param<2> weight_;  // [in, out]
  Param<1> bias_;
};

}  // namespace gpt
