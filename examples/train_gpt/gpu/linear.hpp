// SPDX-License-Identifier: Apache-2.0
/// y = x W + b
#pragma once
#include <type_traits>

#include "gpu/gpu.hpp"
#include "gpu/kernels/columns.hpp"
#include "zeroth/engine/guards.hpp"

namespace gpt::gpu {

template <class T>
[[nodiscard]] Operand operand(Matrix<T> const& m) {
  return {m.data(), zeroth::dtype_of<T>, m.rows(), m.cols(), m.stride()};
}
template <class T>
[[nodiscard]] Operand operand(zeroth::View<T, 2> const& view) {
  return {view.data(), zeroth::dtype_of<std::remove_const_t<T>>, view.extent(0), view.extent(1), view.extent(1)};
}
template <class T>
[[nodiscard]] Result result(Matrix<T>& m) {
  return {m.data(), zeroth::dtype_of<T>, m.stride()};
}
[[nodiscard]] inline Operand transposed(Operand operand) {
  operand.transposed = !operand.transposed;
  return operand;
}

/// Adds the products a b to a gradient, in its own memory.
template <zeroth::Element G>
void contribute_product(Gpu& gpu, Operand const& a, Operand const& b, zeroth::Gradient<G, 2> const& gradient) {
  gpu.multiply(
      {.a = a, .b = b, .out = {gradient.data(), zeroth::dtype_of<G>, gradient.shape()[1]}, .beta = gradient.beta()});
}

/// Adds to a gradient what was added up over chunks of rows, `stride` floats apart.
template <zeroth::Element G>
void contribute_chunks(Gpu const& gpu, float const* sums, std::int64_t stride, std::int64_t chunks,
                       zeroth::Gradient<G, 1> const& gradient) {
  gpu.run(FoldChunks<G>{sums, stride, chunks, gradient.shape()[0], gradient.data(), gradient.beta()});
}

/// Adds the sums of columns to a gradient.
template <zeroth::Element T, zeroth::Element G>
void contribute_sums(Gpu& gpu, Matrix<T> const& values, zeroth::Gradient<G, 1> const& gradient) {
  auto const chunks = ChunkSums<T>::chunks_of(values.rows());
  float* const sums = gpu.partial_sums(chunks * values.cols());
  gpu.run(ChunkSums<T>{values.data(), values.rows(), values.cols(), sums});
  contribute_chunks(gpu, sums, values.cols(), chunks, gradient);
}

template <zeroth::Element T>
class Linear {
 public:
  explicit Linear(LinearParams const& params) : params_{params} {}

  template <class Open>
  void forward(Open const& p, Matrix<T> const& x, Matrix<T>& y) const {
    p.gpu.multiply(product(p, x, y, Epilogue::bias));
  }
  /// y = residual + x W + b
  template <class Open>
  void forward(Open const& p, Matrix<T> const& x, Matrix<T> const& residual, Matrix<T>& y) const {
    auto sum = product(p, x, y, Epilogue::bias);
    sum.beta = 1;
    sum.addend = residual.data();
    p.gpu.multiply(sum);
  }
  /// inner = x W + b, y = gelu(inner)
  template <class Open>
  void forward_gelu(Open const& p, Matrix<T> const& x, Matrix<T>& inner, Matrix<T>& y) const {
    auto sum = product(p, x, y, Epilogue::bias_gelu);
    sum.inner = inner.data();
    p.gpu.multiply(sum);
  }

  /// `dx` may be the memory of `x`.
  template <class Open>
  void backward(Open const& p, Matrix<T> const& x, Matrix<T> const& dy, Matrix<T>& dx) const {
    contribute(p, x, dy);
    p.gpu.multiply(back(p, dy, dx));
  }
  /// Where x = gelu(inner): `dinner`, which may be the memory of `x`.
  template <class Open>
  void backward_gelu(Open const& p, Matrix<T> const& x, Matrix<T>& inner, Matrix<T> const& dy,
                     Matrix<T>& dinner) const {
    contribute(p, x, dy);
    auto slope = back(p, dy, dinner);
    slope.epilogue = Epilogue::gelu_slope;
    slope.inner = inner.data();
    p.gpu.multiply(slope);
  }

 private:
  template <class Open>
  [[nodiscard]] Product product(Open const& p, Matrix<T> const& x, Matrix<T>& y, Epilogue epilogue) const {
    return {.a = operand(x),
            .b = operand(p[params_.weight]),
            .out = result(y),
            .epilogue = epilogue,
            .bias = p[params_.bias].data()};
  }
  template <class Open>
  [[nodiscard]] Product back(Open const& p, Matrix<T> const& dy, Matrix<T>& dx) const {
    return {.a = operand(dy), .b = transposed(operand(p[params_.weight])), .out = result(dx)};
  }
  template <class Open>
  void contribute(Open const& p, Matrix<T> const& x, Matrix<T> const& dy) const {
    contribute_product(p.gpu, transposed(operand(x)), operand(dy), p.grad(params_.weight));
    contribute_sums(p.gpu, dy, p.grad(params_.bias));
  }

  LinearParams params_;
};

}  // namespace gpt::gpu
