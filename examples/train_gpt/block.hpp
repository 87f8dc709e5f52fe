// SPDX-License-Identifier: Apache-2.0
/// A transformer block: attention and an MLP, each after a LayerNorm and added to its input. Tensor ranks divide the
/// heads of attention and the hidden channels of the MLP. They may also divide the rows between them.
#pragma once
#include "attention.hpp"
#include "dropout.hpp"
#include "layer_norm.hpp"
#include "linear.hpp"
#include "shape.hpp"

namespace gpt {

template <class Device>
class Block {
 public:
  using Matrix = Activations<Device>;

  /// The data that backward needs in addition to the block's input: 9 * channels and a little more per token, or 13 *
  /// channels if the device also keeps `hidden`, GELU of `fc`. Tensor ranks divide all of it, but `middle` only if they
  /// divide rows.
  struct Tape {
    LayerNormTape<Device> norm_1, norm_2;
    Matrix qkv, mixed, middle, fc, hidden;
    Sums<Device> log_sums;
  };
  /// The data that gradients of parameters need if they are computed after those of inputs: 11 * channels per token.
  struct Slopes {
    Matrix normal_1, normal_2;       // inputs of c_attn and c_fc
    Matrix qkv, attention, fc, mlp;  // gradients of the outputs of the four products
    Sums<Device> norm_1, norm_2;     // for the LayerNorms' parameters
  };
  /// Memory for one call of backward(), or of forward() and then output(). All blocks share one.
  struct Scratch {
    Matrix normal, hidden, dmixed, dqkv;
    Matrix dbranch;    // with dropout
    Matrix parts;      // all rows of a sum over tensor ranks
    Matrix own, dall;  // if they divide rows: this rank's rows, and all rows of a gradient
  };

  /// `index` is the block's index in the whole model.
  Block(BlockParams const& p, Shape const& s, std::uint32_t index, float dropout, KeyBlocks const* key_blocks = nullptr)
      : unit_{p.unit},
        ln_1_{p.ln_1},
        c_attn_{p.c_attn},
        attention_{s, p.c_proj.weight.shape()[0], key_blocks},
        c_proj_{p.c_proj},
        attention_dropout_{dropout, 1 + 2 * index, s},
        ln_2_{p.ln_2},
        c_fc_{p.c_fc},
        mlp_c_proj_{p.mlp_c_proj},
        mlp_dropout_{dropout, 2 + 2 * index, s} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// Computes all except the output, which backward does not need.
  template <class Open>
  void forward(Open const& p, Matrix const& x, Tape& tape, Scratch& scratch) const {
    auto& hidden = hidden_of(tape, scratch);
    ln_1_.forward_to_all(p, x, tape.norm_1, scratch.own, scratch.normal);
    auto const tokens = scratch.normal.rows();
    tape.qkv.resize(tokens, c_attn_.shape()[1]);
    tape.mixed.resize(tokens, c_proj_.shape()[0]);
    tape.middle.resize(x.rows(), x.cols());
    tape.fc.resize(tokens, c_fc_.shape()[1]);
    hidden.resize(tokens, c_fc_.shape()[1]);
    c_attn_.forward(p, scratch.normal, tape.qkv);
    attention_.forward(p, tape.qkv, tape.log_sums, tape.mixed);
    add(p, c_proj_, tape.mixed, attention_dropout_, x, scratch, tape.middle);
    ln_2_.forward_to_all(p, tape.middle, tape.norm_2, scratch.own, scratch.normal);
    c_fc_.forward_gelu(p, scratch.normal, tape.fc, hidden);
  }
  template <class Open>
  void output(Open const& p, Tape& tape, Scratch& scratch, Matrix& y) const {
    y.resize(tape.middle.rows(), tape.middle.cols());
    add(p, mlp_c_proj_, hidden_of(tape, scratch), mlp_dropout_, tape.middle, scratch, y);
  }

  /// `d` is the gradient of the output, then of the input. Uses up `hidden`.
  template <class Open>
  void backward(Open const& p, Matrix const& x, Tape& tape, Scratch& scratch, Matrix& d) const {
    auto& hidden = hidden_of(tape, scratch);
    scratch.dmixed.resize(tape.mixed.rows(), tape.mixed.cols());
    scratch.dqkv.resize(tape.qkv.rows(), tape.qkv.cols());

    if constexpr (!Device::keeps_hidden) {
      p.device.gelu(tape.fc, hidden);
    }
    mlp_c_proj_.backward_gelu(p, hidden, tape.fc, backward_to_all(p, mlp_dropout_, d, scratch), hidden);
    ln_2_.again_to_all(p, tape.middle, tape.norm_2, scratch.own, scratch.normal);
    ln_2_.backward(p, tape.middle, tape.norm_2, backward_of_first(p, c_fc_, hidden, scratch), d);

    c_proj_.backward(p, tape.mixed, backward_to_all(p, attention_dropout_, d, scratch), scratch.dmixed);
    attention_.backward(p, tape.qkv, tape.mixed, tape.log_sums, scratch.dmixed, scratch.dqkv);
    ln_1_.again_to_all(p, x, tape.norm_1, scratch.own, scratch.normal);
    ln_1_.backward(p, x, tape.norm_1, backward_of_first(p, c_attn_, scratch.dqkv, scratch), d);
  }
  /// backward() in two halves: the first leaves `slopes` for the second.
  template <class Open>
  void backward_inputs(Open const& p, Matrix const& x, Tape& tape, Scratch& scratch, Slopes& slopes, Matrix& d) const {
    slopes.fc.resize(tape.fc.rows(), tape.fc.cols());
    slopes.qkv.resize(tape.qkv.rows(), tape.qkv.cols());
    scratch.dmixed.resize(tape.mixed.rows(), tape.mixed.cols());

    keep_backward_to_all(p, mlp_dropout_, d, scratch, slopes.mlp);
    mlp_c_proj_.backward_gelu_inputs(p, tape.fc, slopes.mlp, slopes.fc);
    ln_2_.again_to_all(p, tape.middle, tape.norm_2, scratch.own, slopes.normal_2);
    auto const& dmiddle = backward_inputs_of_first(p, c_fc_, slopes.fc, scratch);
    ln_2_.backward_inputs(p, tape.middle, tape.norm_2, dmiddle, d, slopes.norm_2);

    keep_backward_to_all(p, attention_dropout_, d, scratch, slopes.attention);
    c_proj_.backward_inputs(p, slopes.attention, scratch.dmixed);
    attention_.backward(p, tape.qkv, tape.mixed, tape.log_sums, scratch.dmixed, slopes.qkv);
    ln_1_.again_to_all(p, x, tape.norm_1, scratch.own, slopes.normal_1);
    auto const& dx = backward_inputs_of_first(p, c_attn_, slopes.qkv, scratch);
    ln_1_.backward_inputs(p, x, tape.norm_1, dx, d, slopes.norm_1);
  }
  template <class Open>
  void backward_weights(Open const& p, Tape& tape, Scratch& scratch, Slopes const& slopes) const {
    auto& hidden = hidden_of(tape, scratch);
    p.device.gelu(tape.fc, hidden);
    mlp_c_proj_.backward_weights(p, hidden, slopes.mlp);
    c_fc_.backward_weights(p, slopes.normal_2, slopes.fc);
    ln_2_.backward_weights(p, slopes.norm_2);
    c_proj_.backward_weights(p, tape.mixed, slopes.attention);
    c_attn_.backward_weights(p, slopes.normal_1, slopes.qkv);
    ln_1_.backward_weights(p, slopes.norm_1);
  }

 private:
  /// y = residual + dropout(x W + b), where `linear` is the second of a pair.
  template <class Open>
  static void add(Open const& p, Linear<Device> const& linear, Matrix const& x, Dropout<Device> const& dropout,
                  Matrix const& residual, Scratch& scratch, Matrix& y) {
    if constexpr (Device::divides_layers) {
      if (linear.is_divided()) {
        auto& parts = p.device.divides_rows() ? scratch.parts : y;
        parts.resize(x.rows(), y.cols());
        linear.forward_part(p, x, parts);
        p.device.leave(parts).wait();
        if (p.device.divides_rows()) {
          p.device.own_rows(parts, y);
        }
        linear.add_bias(p, y);
        dropout.on() ? dropout.add(p, residual, y) : p.device.add(residual, y);
        return;
      }
    }
    if (dropout.on()) {
      linear.forward(p, x, y);
      dropout.add(p, residual, y);
    } else {
      linear.forward(p, x, residual, y);
    }
  }
  /// The gradient of `scratch.normal`, the input of `linear`, which is the first of a pair. Tensor ranks add it up
  /// while they compute the gradient of the matrix.
  template <class Open>
  [[nodiscard]] static Matrix const& backward_of_first(Open const& p, Linear<Device> const& linear, Matrix const& dy,
                                                       Scratch& scratch) {
    if constexpr (Device::divides_layers) {
      if (linear.is_divided()) {
        scratch.parts.resize(scratch.normal.rows(), scratch.normal.cols());
        linear.backward_inputs(p, dy, scratch.parts);
        auto sum = p.device.enter_backward(scratch.parts);
        linear.backward_weights(p, scratch.normal, dy);
        sum.wait();
        return own_rows(p, scratch.parts, scratch.own);
      }
    }
    linear.backward(p, scratch.normal, dy, scratch.normal);
    return scratch.normal;
  }
  /// Computes only the gradient of the input.
  template <class Open>
  [[nodiscard]] static Matrix const& backward_inputs_of_first(Open const& p, Linear<Device> const& linear,
                                                              Matrix const& dy, Scratch& scratch) {
    scratch.normal.resize(dy.rows(), linear.shape()[0]);
    linear.backward_inputs(p, dy, scratch.normal);
    if constexpr (Device::divides_layers) {
      if (linear.is_divided()) {
        p.device.enter_backward(scratch.normal).wait();
      }
    }
    return own_rows(p, scratch.normal, scratch.own);
  }
  /// The gradient of the output of the second of a pair, for all rows.
  template <class Open>
  [[nodiscard]] static Matrix const& backward_to_all(Open const& p, Dropout<Device> const& dropout, Matrix const& d,
                                                     Scratch& scratch) {
    auto const& dbranch = dropout.backward(p, d, scratch.dbranch);
    if constexpr (Device::divides_layers) {
      return all_rows(p, dbranch, scratch.dall);
    } else {
      return dbranch;
    }
  }
  /// Like backward_to_all(), into `to`.
  template <class Open>
  static void keep_backward_to_all(Open const& p, Dropout<Device> const& dropout, Matrix const& d, Scratch& scratch,
                                   Matrix& to) {
    if constexpr (Device::divides_layers) {
      if (p.device.divides_rows()) {
        p.device.leave_backward(dropout.backward(p, d, scratch.dbranch), to).wait();
        return;
      }
    }
    dropout.keep_backward(p, d, to);
  }
  [[nodiscard]] static Matrix& hidden_of(Tape& tape, Scratch& scratch) {
    return Device::keeps_hidden ? tape.hidden : scratch.hidden;
  }

  zeroth::Unit unit_;
  LayerNorm<Device> ln_1_;
  Linear<Device> c_attn_;
  Attention<Device> attention_;
  Linear<Device> c_proj_;
  Dropout<Device> attention_dropout_;
  LayerNorm<Device> ln_2_;
  Linear<Device> c_fc_, mlp_c_proj_;
  Dropout<Device> mlp_dropout_;
};

}  // namespace gpt
