// SPDX-License-Identifier: Apache-2.0
/// Tokens to vectors, and at the other end vectors to a loss: the two uses of the token embedding.
#pragma once
#include <cstdint>
#include <utility>

#include "gpu/kernels/cross_entropy.hpp"
#include "gpu/kernels/embedding.hpp"
#include "gpu/layer_norm.hpp"
#include "zeroth/engine/pass.hpp"

namespace gpt::gpu {

/// A micro-batch on the GPU.
struct DeviceBatch {
  std::int32_t const *inputs, *targets;  ///< [tokens]
  std::int32_t const *order, *first;  ///< Where each token is in `inputs`: order[first[t]] ... order[first[t + 1] - 1].
  std::int64_t tokens;
  float* loss;  ///< Where the mean loss goes.
};

template <zeroth::Element T>
class Embedding {
 public:
  explicit Embedding(EmbeddingParams const& params) : params_{params} {}

  [[nodiscard]] zeroth::Unit unit() const { return params_.unit; }

  template <class Open>
  void forward(Open const& p, DeviceBatch const& batch, Matrix<T>& x) const {
    auto const tokens = p[params_.tokens];
    auto const positions = p[params_.positions];
    x.resize(batch.tokens, tokens.extent(1));
    p.gpu.run(Embed<T>{batch.inputs, tokens.data(), positions.data(), batch.tokens, tokens.extent(1),
                       positions.extent(0), x.data()});
  }
  template <class Open>
  void backward(Open const& p, DeviceBatch const& batch, Matrix<T> const& dx) const {
    auto const tokens = p.grad(params_.tokens);
    auto const positions = p.grad(params_.positions);
    using G = std::remove_pointer_t<decltype(tokens.data())>;
    p.gpu.run(EmbedTokensBackward<T, G>{dx.data(), batch.order, batch.first, tokens.shape()[0], dx.cols(),
                                        tokens.data(), tokens.beta()});
    p.gpu.run(EmbedPositionsBackward<T, G>{dx.data(), dx.rows(), dx.cols(), positions.shape()[0], positions.data(),
                                           positions.beta()});
  }

 private:
  EmbeddingParams params_;
};

template <class M>
[[nodiscard]] auto rows_of(M& matrix) {
  return StridedRows<std::remove_pointer_t<decltype(matrix.data())>>{matrix.data(), matrix.rows(), matrix.cols(),
                                                                     matrix.stride()};
}

/// The last LayerNorm, the product with the token embedding, and the cross-entropy.
template <zeroth::Element T>
class Head {
 public:
  struct Tape {
    typename LayerNorm<T>::Tape norm;
    Matrix<float> logits;  // [tokens, vocabulary], in aligned rows: vocabularies are odd
    Matrix<float> largest, sums, losses;
    Matrix<T> normal, dlogits;
  };

  explicit Head(HeadParams const& params) : unit_{params.unit}, ln_f_{params.ln_f}, tokens_{params.tokens} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// The mean loss, when the stream has come so far.
  template <class Open>
  zeroth::DeviceLoss forward(Open const& p, Matrix<T> const& x, DeviceBatch const& batch, Tape& tape) const {
    auto const tokens = p[tokens_];
    tape.normal.resize(x.rows(), x.cols());
    tape.logits.resize_aligned(x.rows(), tokens.extent(0));
    tape.largest.resize(1, x.rows());
    tape.sums.resize(1, x.rows());
    tape.losses.resize(1, x.rows());
    ln_f_.forward(p, x, tape.norm, tape.normal);
    p.gpu.multiply({.a = operand(tape.normal), .b = transposed(operand(tokens)), .out = result(tape.logits)});
    p.gpu.run(CrossEntropy{rows_of(std::as_const(tape.logits)), batch.targets, tape.largest.data(), tape.sums.data(),
                           tape.losses.data()});
    p.gpu.run(MeanLoss{tape.losses.data(), x.rows(), batch.loss});
    return {batch.loss};
  }
  /// `seed` times the gradient of the mean loss. Uses up the tape.
  template <class Open>
  void backward(Open const& p, Matrix<T> const& x, DeviceBatch const& batch, Tape& tape, float seed,
                Matrix<T>& dx) const {
    tape.dlogits.resize_aligned(tape.logits.rows(), tape.logits.cols());
    p.gpu.run(CrossEntropyBackward<T>{rows_of(std::as_const(tape.logits)), batch.targets, tape.largest.data(),
                                      tape.sums.data(), seed / static_cast<float>(x.rows()), rows_of(tape.dlogits)});
    contribute_product(p.gpu, transposed(operand(tape.dlogits)), operand(tape.normal), p.grad(tokens_));
    p.gpu.multiply({.a = operand(tape.dlogits), .b = operand(p[tokens_]), .out = result(tape.normal)});
    dx.resize(x.rows(), x.cols());
    expect(cudaMemsetAsync(dx.data(), 0, static_cast<std::size_t>(dx.count()) * sizeof(T), p.gpu.stream()),
           "cudaMemsetAsync");
    ln_f_.backward(p, x, tape.norm, tape.normal, dx);
  }

 private:
  zeroth::Unit unit_;
  LayerNorm<T> ln_f_;
  Param<2> tokens_;
};

}  // namespace gpt::gpu
