// SPDX-License-Identifier: Apache-2.0
/// Rows to mean 0 and variance 1, then scaled and shifted.
#pragma once
#include "gpu/kernels/layer_norm.hpp"
#include "gpu/linear.hpp"

namespace gpt::gpu {

template <zeroth::Element T>
class LayerNorm {
 public:
  /// What backward needs beside the input itself, per row.
  struct Tape {
    Matrix<float> mean, rstd;
  };

  explicit LayerNorm(LayerNormParams const& params) : params_{params} {}

  template <class Open>
  void forward(Open const& p, Matrix<T> const& x, Tape& tape, Matrix<T>& y) const {
    tape.mean.resize(1, x.rows());
    tape.rstd.resize(1, x.rows());
    p.gpu.run(LayerNormForward<T>{rows(p, x, y), tape.mean.data(), tape.rstd.data()});
  }
  /// The output once more. Cheaper to compute twice than to keep.
  template <class Open>
  void again(Open const& p, Matrix<T> const& x, Tape const& tape, Matrix<T>& y) const {
    p.gpu.run(LayerNormAgain<T>{rows(p, x, y), tape.mean.data(), tape.rstd.data()});
  }
  /// Adds to `dx`.
  template <class Open>
  void backward(Open const& p, Matrix<T> const& x, Tape const& tape, Matrix<T> const& dy, Matrix<T>& dx) const {
    auto const chunks = LayerNormBackward<T>::chunks_of(x.rows());
    float* const sums = p.gpu.partial_sums(chunks * 2 * x.cols());
    p.gpu.run(LayerNormBackward<T>{x.data(), dy.data(), p[params_.weight].data(), tape.mean.data(), tape.rstd.data(),
                                   x.rows(), x.cols(), dx.data(), sums});
    contribute_chunks(p.gpu, sums, 2 * x.cols(), chunks, p.grad(params_.weight));
    contribute_chunks(p.gpu, sums + x.cols(), 2 * x.cols(), chunks, p.grad(params_.bias));
  }

 private:
  template <class Open>
  [[nodiscard]] LayerNormRows<T> rows(Open const& p, Matrix<T> const& x, Matrix<T>& y) const {
    return {x.data(), p[params_.weight].data(), p[params_.bias].data(), x.rows(), x.cols(), y.data()};
  }

  LayerNormParams params_;
};

}  // namespace gpt::gpu
