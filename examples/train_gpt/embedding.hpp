// SPDX-License-Identifier: Apache-2.0
/// Tokens to vectors, and at the other end vectors to a loss: the two uses of the token embedding.
#pragma once
#include <concepts>

#include "dropout.hpp"
#include "layer_norm.hpp"
#include "product.hpp"

namespace gpt {

template <class Device>
class Embedding {
 public:
  using Matrix = Activations<Device>;
  using Batch = typename Device::Batch;

  Embedding(EmbeddingParams const& params, Shape const& s, float dropout)
      : params_{params}, dropout_{dropout, 0, s, false} {}

  [[nodiscard]] zeroth::Unit unit() const { return params_.unit; }

  /// `all` is where rows are that tensor ranks divide.
  template <class Open>
  void forward(Open const& p, Batch const& batch, Matrix& x, Matrix& all) const {
    if constexpr (Device::divides_layers) {
      if (p.device.divides_rows()) {
        embed(p, batch, all);
        p.device.own_rows(all, x);
        return;
      }
    }
    embed(p, batch, x);
  }
  /// Uses up `dx` and `all`.
  template <class Open>
  void backward(Open const& p, Batch const& batch, Matrix& dx, Matrix& all) const {
    if constexpr (Device::divides_layers) {
      if (p.device.divides_rows()) {
        p.device.leave_backward(dx, all).wait();
        embed_backward(p, batch, all);
        return;
      }
    }
    embed_backward(p, batch, dx);
  }

 private:
  template <class Open>
  void embed(Open const& p, Batch const& batch, Matrix& x) const {
    auto const tokens = p[params_.tokens];
    x.resize(Device::tokens(batch), tokens.extent(1));
    p.device.embed(batch, tokens, p[params_.positions], x);
    dropout_.forward(p, x);
  }
  template <class Open>
  void embed_backward(Open const& p, Batch const& batch, Matrix& dx) const {
    p.device.embed_backward(batch, dropout_.backward(p, dx, dx), p.grad(params_.tokens), p.grad(params_.positions));
  }

  EmbeddingParams params_;
  Dropout<Device> dropout_;
};

/// What the softmax over the vocabulary leaves for its gradient, per row.
template <class Device>
struct SoftmaxTape {
  Sums<Device> largest, sums, losses;
};

/// The last LayerNorm, the product with the token embedding, and the cross-entropy.
template <class Device>
class Head {
 public:
  using Matrix = Activations<Device>;
  using Batch = typename Device::Batch;
  using Wide = typename Device::Wide;

  struct Tape {
    LayerNormTape<Device> norm;
    Sums<Device> logits;  // [tokens, vocabulary], in aligned rows: vocabularies are odd
    SoftmaxTape<Device> softmax;
    Matrix normal, dlogits;  // the last where it cannot take the place of `logits`
    Matrix own;              // rows of this rank, where tensor ranks divide them
  };

  /// See Block::Slopes.
  struct Slopes {
    Matrix normal;
    Sums<Device> norm;
  };

  explicit Head(HeadParams const& params) : unit_{params.unit}, ln_f_{params.ln_f}, tokens_{params.tokens} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// The mean loss; of a GPU when the stream has come so far.
  template <class Open>
  [[nodiscard]] auto forward(Open const& p, Matrix const& x, Batch const& batch, Tape& tape) const {
    auto const tokens = p[tokens_];
    ln_f_.forward_to_all(p, x, tape.norm, tape.own, tape.normal);
    tape.logits.resize_aligned(tape.normal.rows(), tokens.extent(0));
    for (auto* const rows : {&tape.softmax.largest, &tape.softmax.sums, &tape.softmax.losses}) {
      rows->resize(1, tape.normal.rows());
    }
    p.device.multiply({.a = operand(tape.normal), .b = transposed(operand(tokens)), .out = result(tape.logits)});
    return p.device.cross_entropy(tape.logits, batch, tape.softmax);
  }
  /// `seed` times the gradient of the mean loss. Uses up the tape.
  template <class Open>
  void backward(Open const& p, Matrix const& x, Batch const& batch, Tape& tape, Wide seed, Matrix& dx) const {
    Matrix& dlogits = dlogits_of(tape);
    p.device.cross_entropy_backward(tape.logits, batch, tape.softmax, seed / rows_of(tape), dlogits);
    p.device.multiply(contribution(transposed(operand(dlogits)), operand(tape.normal), p.grad(tokens_)));
    p.device.multiply({.a = operand(dlogits), .b = operand(p[tokens_]), .out = result(tape.normal)});
    dx.resize(x.rows(), x.cols());
    p.device.clear(dx);
    ln_f_.backward(p, x, tape.norm, own_rows(p, tape.normal, tape.own), dx);
  }
  /// The same in two halves. The second uses up the tape.
  template <class Open>
  void backward_inputs(Open const& p, Matrix const& x, Batch const& batch, Tape& tape, Wide seed, Slopes& slopes,
                       Matrix& dx) const {
    Matrix& dlogits = dlogits_of(tape);
    p.device.cross_entropy_backward(tape.logits, batch, tape.softmax, seed / rows_of(tape), dlogits);
    slopes.normal.resize(tape.normal.rows(), x.cols());
    p.device.multiply({.a = operand(dlogits), .b = operand(p[tokens_]), .out = result(slopes.normal)});
    dx.resize(x.rows(), x.cols());
    p.device.clear(dx);
    ln_f_.backward_inputs(p, x, tape.norm, own_rows(p, slopes.normal, tape.own), dx, slopes.norm);
  }
  template <class Open>
  void backward_weights(Open const& p, Tape& tape, Slopes const& slopes) const {
    p.device.multiply(contribution(transposed(operand(dlogits_of(tape))), operand(tape.normal), p.grad(tokens_)));
    ln_f_.backward_weights(p, slopes.norm);
  }

 private:
  [[nodiscard]] static Wide rows_of(Tape const& tape) { return static_cast<Wide>(tape.normal.rows()); }
  [[nodiscard]] static Matrix& dlogits_of(Tape& tape) {
    if constexpr (std::same_as<Matrix, Sums<Device>>) {
      return tape.logits;
    } else {
      tape.dlogits.resize_aligned(tape.logits.rows(), tape.logits.cols());
      return tape.dlogits;
    }
  }

  zeroth::Unit unit_;
  LayerNorm<Device> ln_f_;
  Param<2> tokens_;
};

}  // namespace gpt
