// SPDX-License-Identifier: Apache-2.0
/// Tokens to vectors, and at the other end vectors to a loss: the two uses of the token embedding.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>

#include "batches.hpp"
#include "layer_norm.hpp"

namespace gpt {

template <class S>
class Embedding {
 public:
  explicit Embedding(EmbeddingParams const& params) : params_{params} {}

  [[nodiscard]] zeroth::Unit unit() const { return params_.unit; }

  void forward(Parameters<S> const& p, Batch const& batch, Matrix<S>& x) const {
    auto const tokens = p[params_.tokens];
    auto const positions = p[params_.positions];
    x.resize(std::ssize(batch.inputs), tokens.cols());
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      x.row(i) = tokens.row(batch.inputs[static_cast<std::size_t>(i)]) + positions.row(i % positions.rows());
    }
  }
  void backward(Gradients<S> const& p, Batch const& batch, Matrix<S> const& dx) const {
    auto token_gradient = p.grad(params_.tokens);
    auto position_gradient = p.grad(params_.positions);
    auto& dtokens = token_gradient.accumulator();
    auto& dpositions = position_gradient.accumulator();
    for (Eigen::Index i = 0; i < dx.rows(); ++i) {
      dtokens.row(batch.inputs[static_cast<std::size_t>(i)]) += dx.row(i);
      dpositions.row(i % dpositions.rows()) += dx.row(i);
    }
  }

 private:
  EmbeddingParams params_;
};

/// The last LayerNorm, the product with the token embedding, and the cross-entropy.
template <class S>
class Head {
 public:
  struct Tape {
    typename LayerNorm<S>::Tape norm;
    Matrix<S> probabilities;  // [tokens, vocabulary]
    Matrix<S> normal;
  };

  explicit Head(HeadParams const& params) : unit_{params.unit}, ln_f_{params.ln_f}, tokens_{params.tokens} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// The mean loss.
  S forward(Parameters<S> const& p, Matrix<S> const& x, Batch const& batch, Tape& tape) const {
    auto const tokens = p[tokens_];
    tape.normal.resizeLike(x);
    tape.probabilities.resize(x.rows(), tokens.rows());
    ln_f_.forward(p, x, tape.norm, tape.normal);
    tape.probabilities.noalias() = tape.normal * tokens.transpose();
    double loss = 0;
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      auto row = tape.probabilities.row(i).array();
      auto const target = batch.targets[static_cast<std::size_t>(i)];
      S const largest = row.maxCoeff();
      S const logit = row[target] - largest;
      row = (row - largest).exp();
      S const sum = row.sum();
      row *= 1 / sum;
      loss += static_cast<double>(std::log(sum) - logit);
    }
    return static_cast<S>(loss / static_cast<double>(x.rows()));
  }
  /// `seed` times the gradient of the mean loss. Uses up the tape.
  void backward(Gradients<S> const& p, Matrix<S> const& x, Batch const& batch, Tape& tape, S seed,
                Matrix<S>& dx) const {
    auto const tokens = p[tokens_];
    Matrix<S>& dlogits = tape.probabilities;
    S const each = seed / static_cast<S>(x.rows());
    for (Eigen::Index i = 0; i < x.rows(); ++i) {
      dlogits(i, batch.targets[static_cast<std::size_t>(i)]) -= 1;
      dlogits.row(i) *= each;
    }
    p.grad(tokens_) += dlogits.transpose() * tape.normal;
    tape.normal.noalias() = dlogits * tokens;
    dx.setZero(x.rows(), x.cols());
    ln_f_.backward(p, x, tape.norm, tape.normal, dx);
  }

 private:
  zeroth::Unit unit_;
  LayerNorm<S> ln_f_;
  Param<2> tokens_;
};

}  // namespace gpt
