// SPDX-License-Identifier: Apache-2.0
/// The two uses of the token embedding: tokens to vectors, and vectors to a loss.
#pragma once
#include <concepts>
#include <cstdint>

#include <zeroth/parallel/cross_entropy.hpp>

#include "dropout.hpp"
#include "layer_norm.hpp"
#include "matrix.hpp"
#include "product.hpp"

namespace gpt {

template <class Device>
class Embedding {
 public:
  using Matrix = Activations<Device>;
  using Batch = typename Device::Batch;

  Embedding(EmbeddingParams const& params, Shape const& s, float dropout) : params_{params}, dropout_{dropout, 0, s} {}

  [[nodiscard]] zeroth::Unit unit() const { return params_.unit; }

  /// `all` is memory for all rows, if tensor ranks divide rows.
  template <class Open>
  void forward(Open const& p, Batch const& batch, Matrix& x, Matrix& all) const {
    if constexpr (Device::divides_layers) {
      if (p.device.tensor_ranks() > 1) {
        embed_together(p, batch, x, all);
        dropout_.forward(p, x);
        return;
      }
    }
    auto const tokens = p[params_.tokens];
    x.resize(Device::tokens(batch), tokens.extent(1));
    p.device.embed(batch, tokens, p[params_.positions], x);
    dropout_.forward(p, x);
  }
  /// Overwrites `dx` and `all`.
  template <class Open>
  void backward(Open const& p, Batch const& batch, Matrix& dx, Matrix& all) const {
    auto const& own = dropout_.backward(p, dx, dx);
    if constexpr (Device::divides_layers) {
      auto const& of_all = all_rows(p, own, all);
      p.device.embed_backward(batch, of_all, p.device.rows(params_.tokens), p.grad(params_.tokens),
                              p.grad(params_.positions));
    } else {
      p.device.embed_backward(batch, own, p.grad(params_.tokens), p.grad(params_.positions));
    }
  }

 private:
  /// One rank has a token's vector, and the others have 0, so the sum is exact in any dtype.
  template <class Open>
  void embed_together(Open const& p, Batch const& batch, Matrix& x, Matrix& all) const {
    auto const tokens = p[params_.tokens];
    auto& parts = p.device.divides_rows() ? all : x;
    parts.resize(Device::tokens(batch), tokens.extent(1));
    p.device.embed_part(batch, tokens, p.device.rows(params_.tokens), parts);
    p.device.leave(parts).wait();
    if (p.device.divides_rows()) {
      p.device.own_rows(parts, x);
    }
    p.device.add_positions(p[params_.positions], x);
  }

  EmbeddingParams params_;
  Dropout<Device> dropout_;
};

/// The data per row that the softmax over the vocabulary keeps for its gradient.
template <class Device>
struct SoftmaxTape {
  Sums<Device> largest, sums, losses;
  zeroth::CrossEntropyTape of_part;  // used instead on CPUs if tensor ranks divide the vocabulary

  void resize(std::int64_t rows) {
    for (auto* const each : {&largest, &sums, &losses}) {
      each->resize(1, rows);
    }
  }
};

/// The last LayerNorm, the product with the token embedding, and the cross-entropy.
template <class Device>
class Head {
 public:
  using Matrix = Activations<Device>;
  using Batch = typename Device::Batch;
  using Seed = typename Device::Seed;

  struct Tape {
    LayerNormTape<Device> norm;
    Sums<Device> logits;  // [tokens, vocabulary that this rank has], in aligned rows: vocabularies are odd
    SoftmaxTape<Device> softmax;
    Matrix normal, dlogits;  // dlogits only if they do not overwrite `logits`
    Matrix parts;            // all rows of the gradient's sum over tensor ranks
    Matrix own;              // this rank's rows, if they divide rows
  };

  /// See Block::Slopes.
  struct Slopes {
    Matrix normal;
    Sums<Device> norm;
  };

  explicit Head(HeadParams const& params) : unit_{params.unit}, ln_f_{params.ln_f}, tokens_{params.tokens} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// The mean loss; on a GPU it is valid once the stream has reached it.
  template <class Open>
  [[nodiscard]] auto forward(Open const& p, Matrix const& x, Batch const& batch, Tape& tape) const {
    auto const tokens = p[tokens_];
    ln_f_.forward_to_all(p, x, tape.norm, tape.own, tape.normal);
    tape.logits.resize_aligned(tape.normal.rows(), tokens.extent(0));
    p.device.multiply({.a = operand(tape.normal), .b = transposed(operand(tokens)), .out = result(tape.logits)});
    if constexpr (Device::divides_layers) {
      if (p.device.tensor_ranks() > 1) {
        return p.device.cross_entropy_of_part(tape.logits, batch, p.device.rows(tokens_), tape.softmax);
      }
    }
    tape.softmax.resize(tape.normal.rows());
    return p.device.cross_entropy(tape.logits, batch, tape.softmax);
  }
  /// Computes `seed` times the gradient of the mean loss. Overwrites the tape.
  template <class Open>
  void backward(Open const& p, Matrix const& x, Batch const& batch, Tape& tape, Seed seed, Matrix& dx) const {
    auto const& dlogits = dlogits_of(p, batch, tape, seed);
    auto const& dnormal = backward_of_words(p, dlogits, tape);
    dx.resize(x.rows(), x.cols());
    p.device.clear(dx);
    ln_f_.backward(p, x, tape.norm, dnormal, dx);
  }
  /// The same in two halves. The second overwrites the tape.
  template <class Open>
  void backward_inputs(Open const& p, Matrix const& x, Batch const& batch, Tape& tape, Seed seed, Slopes& slopes,
                       Matrix& dx) const {
    auto const& dlogits = dlogits_of(p, batch, tape, seed);
    slopes.normal.resize(tape.normal.rows(), x.cols());
    p.device.multiply({.a = operand(dlogits), .b = operand(p[tokens_]), .out = result(slopes.normal)});
    if constexpr (Device::divides_layers) {
      if (p.device.tensor_ranks() > 1) {
        p.device.enter_backward(slopes.normal).wait();
      }
    }
    dx.resize(x.rows(), x.cols());
    p.device.clear(dx);
    ln_f_.backward_inputs(p, x, tape.norm, own_rows(p, slopes.normal, tape.own), dx, slopes.norm);
  }
  template <class Open>
  void backward_weights(Open const& p, Tape& tape, Slopes const& slopes) const {
    weights_of_words(p, place_of_dlogits(tape), tape);
    ln_f_.backward_weights(p, slopes.norm);
  }

 private:
  [[nodiscard]] static decltype(auto) place_of_dlogits(Tape& tape) {
    if constexpr (Device::overwrites_logits) {
      return InRowsOf<typename Device::Element>{tape.logits};
    } else if constexpr (std::same_as<Matrix, Sums<Device>>) {
      return (tape.logits);
    } else {
      tape.dlogits.resize_aligned(tape.logits.rows(), tape.logits.cols());
      return (tape.dlogits);
    }
  }
  template <class Open>
  [[nodiscard]] decltype(auto) dlogits_of(Open const& p, Batch const& batch, Tape& tape, Seed seed) const {
    decltype(auto) dlogits = place_of_dlogits(tape);
    if constexpr (Device::divides_layers) {
      if (p.device.tensor_ranks() > 1) {
        p.device.cross_entropy_backward_of_part(tape.logits, batch, p.device.rows(tokens_), tape.softmax, seed,
                                                dlogits);
        return dlogits;
      }
    }
    p.device.cross_entropy_backward(tape.logits, batch, tape.softmax, seed, dlogits);
    return dlogits;
  }
  /// Returns the gradient of the product's input, for this rank's rows. Tensor ranks add it up while they compute the
  /// gradient of the matrix.
  template <class Open, class Rows>
  [[nodiscard]] Matrix const& backward_of_words(Open const& p, Rows const& dlogits, Tape& tape) const {
    if constexpr (Device::divides_layers) {
      if (p.device.tensor_ranks() > 1) {
        tape.parts.resize(tape.normal.rows(), tape.normal.cols());
        p.device.multiply({.a = operand(dlogits), .b = operand(p[tokens_]), .out = result(tape.parts)});
        auto sum = p.device.enter_backward(tape.parts);
        weights_of_words(p, dlogits, tape);
        sum.wait();
        return own_rows(p, tape.parts, tape.own);
      }
    }
    weights_of_words(p, dlogits, tape);
    p.device.multiply({.a = operand(dlogits), .b = operand(p[tokens_]), .out = result(tape.normal)});
    return tape.normal;
  }
  template <class Open, class Rows>
  void weights_of_words(Open const& p, Rows const& dlogits, Tape const& tape) const {
    p.device.multiply(contribution(transposed(operand(dlogits)), operand(tape.normal), p.grad(tokens_)));
  }

  zeroth::Unit unit_;
  LayerNorm<Device> ln_f_;
  Param<2> tokens_;
};

}  // namespace gpt
