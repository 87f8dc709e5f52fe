// SPDX-License-Identifier: Apache-2.0
/// One transformer block: attention and an MLP, each behind a LayerNorm and added to what came in. Tensor ranks divide
/// the heads of the one and the hidden channels of the other.
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

  /// What backward needs beside the block's input: 9 * channels and a little more per token; 13 where the device keeps
  /// `hidden`, GELU of `fc`, as well. Tensor ranks divide all of it but `middle`.
  struct Tape {
    LayerNormTape<Device> norm_1, norm_2;
    Matrix qkv, mixed, middle, fc, hidden;
    Sums<Device> log_sums;
  };
  /// What gradients of parameters need that are made later than those by inputs: 11 * channels per token.
  struct Slopes {
    Matrix normal_1, normal_2;       // what c_attn and c_fc read
    Matrix qkv, attention, fc, mlp;  // gradients of what the four products gave
    Sums<Device> norm_1, norm_2;     // for the LayerNorms' parameters
  };
  /// Nothing in it outlives a call of backward(), or of forward() and then output(); one serves all blocks.
  struct Scratch {
    Matrix normal, hidden, dmixed, dqkv;
    Matrix dbranch;  // where there is dropout
    Matrix dnormal;  // where tensor ranks add it up
  };

  /// `index` in the whole model.
  Block(BlockParams const& p, Shape const& s, std::uint32_t index, float dropout)
      : unit_{p.unit},
        ln_1_{p.ln_1},
        c_attn_{p.c_attn},
        attention_{s, p.c_proj.weight.shape()[0]},
        c_proj_{p.c_proj},
        attention_dropout_{dropout, 1 + 2 * index, s},
        ln_2_{p.ln_2},
        c_fc_{p.c_fc},
        mlp_c_proj_{p.mlp_c_proj},
        mlp_dropout_{dropout, 2 + 2 * index, s} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// All but the output: what backward needs.
  template <class Open>
  void forward(Open const& p, Matrix const& x, Tape& tape, Scratch& scratch) const {
    auto const tokens = x.rows();
    auto& hidden = hidden_of(tape, scratch);
    scratch.normal.resize(tokens, x.cols());
    tape.qkv.resize(tokens, c_attn_.shape()[1]);
    tape.mixed.resize(tokens, c_proj_.shape()[0]);
    tape.middle.resize(tokens, x.cols());
    tape.fc.resize(tokens, c_fc_.shape()[1]);
    hidden.resize(tokens, c_fc_.shape()[1]);
    ln_1_.forward(p, x, tape.norm_1, scratch.normal);
    c_attn_.forward(p, scratch.normal, tape.qkv);
    attention_.forward(p, tape.qkv, tape.log_sums, tape.mixed);
    add(p, c_proj_, tape.mixed, attention_dropout_, x, tape.middle);
    ln_2_.forward(p, tape.middle, tape.norm_2, scratch.normal);
    c_fc_.forward_gelu(p, scratch.normal, tape.fc, hidden);
  }
  template <class Open>
  void output(Open const& p, Tape& tape, Scratch& scratch, Matrix& y) const {
    y.resize(tape.middle.rows(), tape.middle.cols());
    add(p, mlp_c_proj_, hidden_of(tape, scratch), mlp_dropout_, tape.middle, y);
  }

  /// `d` is the gradient of the output, then of the input. Uses up `hidden`.
  template <class Open>
  void backward(Open const& p, Matrix const& x, Tape& tape, Scratch& scratch, Matrix& d) const {
    auto& hidden = hidden_of(tape, scratch);
    scratch.dmixed.resize(x.rows(), c_proj_.shape()[0]);
    scratch.dqkv.resize(x.rows(), c_attn_.shape()[1]);

    if constexpr (!Device::keeps_hidden) {
      p.device.gelu(tape.fc, hidden);
    }
    mlp_c_proj_.backward_gelu(p, hidden, tape.fc, mlp_dropout_.backward(p, d, scratch.dbranch), hidden);
    ln_2_.again(p, tape.middle, tape.norm_2, scratch.normal);
    ln_2_.backward(p, tape.middle, tape.norm_2, backward_of_first(p, c_fc_, hidden, scratch), d);

    c_proj_.backward(p, tape.mixed, attention_dropout_.backward(p, d, scratch.dbranch), scratch.dmixed);
    attention_.backward(p, tape.qkv, tape.mixed, tape.log_sums, scratch.dmixed, scratch.dqkv);
    ln_1_.again(p, x, tape.norm_1, scratch.normal);
    ln_1_.backward(p, x, tape.norm_1, backward_of_first(p, c_attn_, scratch.dqkv, scratch), d);
  }
  /// What backward() does in two halves: `slopes` are what the first leaves for the second.
  template <class Open>
  void backward_inputs(Open const& p, Matrix const& x, Tape& tape, Scratch& scratch, Slopes& slopes, Matrix& d) const {
    slopes.normal_1.resize(x.rows(), x.cols());
    slopes.normal_2.resize(x.rows(), x.cols());
    slopes.fc.resize(x.rows(), c_fc_.shape()[1]);
    slopes.qkv.resize(x.rows(), c_attn_.shape()[1]);
    scratch.dmixed.resize(x.rows(), c_proj_.shape()[0]);

    mlp_dropout_.keep_backward(p, d, slopes.mlp);
    mlp_c_proj_.backward_gelu_inputs(p, tape.fc, slopes.mlp, slopes.fc);
    ln_2_.again(p, tape.middle, tape.norm_2, slopes.normal_2);
    backward_inputs_of_first(p, c_fc_, slopes.fc, scratch.normal);
    ln_2_.backward_inputs(p, tape.middle, tape.norm_2, scratch.normal, d, slopes.norm_2);

    attention_dropout_.keep_backward(p, d, slopes.attention);
    c_proj_.backward_inputs(p, slopes.attention, scratch.dmixed);
    attention_.backward(p, tape.qkv, tape.mixed, tape.log_sums, scratch.dmixed, slopes.qkv);
    ln_1_.again(p, x, tape.norm_1, slopes.normal_1);
    backward_inputs_of_first(p, c_attn_, slopes.qkv, scratch.normal);
    ln_1_.backward_inputs(p, x, tape.norm_1, scratch.normal, d, slopes.norm_1);
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
  /// y = residual + what dropout leaves of x W + b, where `linear` is the second of a pair.
  template <class Open>
  static void add(Open const& p, Linear<Device> const& linear, Matrix const& x, Dropout<Device> const& dropout,
                  Matrix const& residual, Matrix& y) {
    if constexpr (Device::divides_layers) {
      if (linear.is_divided()) {
        linear.forward_part(p, x, y);
        p.device.leave(y).wait();
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
  /// The gradient of `scratch.normal`, which `linear`, the first of a pair, has read. Tensor ranks add it up while they
  /// compute that of the matrix.
  template <class Open>
  [[nodiscard]] static Matrix const& backward_of_first(Open const& p, Linear<Device> const& linear, Matrix const& dy,
                                                       Scratch& scratch) {
    if constexpr (Device::divides_layers) {
      if (linear.is_divided()) {
        scratch.dnormal.resize(scratch.normal.rows(), scratch.normal.cols());
        linear.backward_inputs(p, dy, scratch.dnormal);
        auto sum = p.device.enter_backward(scratch.dnormal);
        linear.backward_weights(p, scratch.normal, dy);
        sum.wait();
        return scratch.dnormal;
      }
    }
    linear.backward(p, scratch.normal, dy, scratch.normal);
    return scratch.normal;
  }
  template <class Open>
  static void backward_inputs_of_first(Open const& p, Linear<Device> const& linear, Matrix const& dy, Matrix& dx) {
    linear.backward_inputs(p, dy, dx);
    if constexpr (Device::divides_layers) {
      if (linear.is_divided()) {
        p.device.enter_backward(dx).wait();
      }
    }
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
