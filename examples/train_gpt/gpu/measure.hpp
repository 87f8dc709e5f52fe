// SPDX-License-Identifier: Apache-2.0
/// Measures cuBLASLt's algorithms for the products of a model.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpt.hpp"
#include "gpu/batch_upload.hpp"
#include "gpu/gpu.hpp"

namespace gpt::gpu {

/// A pass without an engine. All parameters share the memory `values`, which has room for the largest one; all
/// gradients share memory likewise.
template <zeroth::Element T, zeroth::GradientOf<T> G>
class SharedMemoryPass {
 public:
  SharedMemoryPass(Gpu<T>& gpu, T const* values, G* gradients) : gpu_{gpu}, guard_{values, gradients} {}

  struct Guard {
    T const* values;
    G* gradients;
    template <std::size_t D>
    [[nodiscard]] zeroth::View<T const, D> operator[](Param<D> const& param) const {
      return {values, param.shape()};
    }
    template <std::size_t D>
    [[nodiscard]] zeroth::Gradient<G, D> grad(Param<D> const& param) const {
      return zeroth::detail::gradient_in<G>({.engine = nullptr, .data = gradients, .beta = 1}, param.shape());
    }
  };
  [[nodiscard]] OpenUnit<Gpu<T>, Guard> forward(zeroth::Unit /*unit*/) { return {gpu_, guard_}; }
  [[nodiscard]] OpenUnit<Gpu<T>, Guard> backward(zeroth::Unit /*unit*/) { return {gpu_, guard_}; }

 private:
  Gpu<T>& gpu_;
  Guard guard_;
};

/// Runs one micro-step, and adds an algorithm for each product to `algorithms`. `values` and `gradients` have memory
/// for the largest parameter. Blocks are alike: it computes one. Returns after the work on the stream has been
/// measured, but may leave work on it.
template <zeroth::Element T, zeroth::GradientOf<T> G>
void measure_products(Shape shape, Batch const& batch, T const* values, G* gradients, cudaStream_t stream, bool tf32,
                      Algorithms& algorithms) {
  shape.layers = 1;
  zeroth::Model model;
  GptParams const params{model, shape};
  Gpu<T> gpu{stream, {.tf32 = tf32, .measured = &algorithms}};
  SharedMemoryPass<T, G> pass{gpu, values, gradients};
  Gpt<Gpu<T>> const gpt{params, Recompute::off};
  auto workspace = gpt.workspace();
  BatchUpload upload{std::ssize(batch.inputs), shape.vocabulary, 1};
  auto const uploaded = upload.enqueue(batch, stream);
  static_cast<void>(gpt.forward(pass, uploaded, workspace));
  gpt.backward(pass, uploaded, workspace, {1});
}

}  // namespace gpt::gpu
