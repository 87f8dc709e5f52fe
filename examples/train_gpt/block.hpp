// SPDX-License-Identifier: Apache-2.0
/// One transformer block: attention and an MLP, each behind a LayerNorm and added to what came in.
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
  /// `hidden`, GELU of `fc`, as well.
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
  };

  /// `index` in the whole model.
  Block(BlockParams const& p, Shape const& s, std::uint32_t index, float dropout)
      : unit_{p.unit},
        ln_1_{p.ln_1},
        c_attn_{p.c_attn},
        attention_{s},
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
    auto const channels = x.cols();
    auto& hidden = hidden_of(tape, scratch);
    scratch.normal.resize(tokens, channels);
    tape.qkv.resize(tokens, 3 * channels);
    tape.mixed.resize(tokens, channels);
    tape.middle.resize(tokens, channels);
    tape.fc.resize(tokens, 4 * channels);
    hidden.resize(tokens, 4 * channels);
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
    scratch.dmixed.resize(x.rows(), x.cols());
    scratch.dqkv.resize(x.rows(), 3 * x.cols());

    if constexpr (!Device::keeps_hidden) {
      p.device.gelu(tape.fc, hidden);
    }
    mlp_c_proj_.backward_gelu(p, hidden, tape.fc, mlp_dropout_.backward(p, d, scratch.dbranch), hidden);
    ln_2_.again(p, tape.middle, tape.norm_2, scratch.normal);
    c_fc_.backward(p, scratch.normal, hidden, scratch.normal);
    ln_2_.backward(p, tape.middle, tape.norm_2, scratch.normal, d);

    c_proj_.backward(p, tape.mixed, attention_dropout_.backward(p, d, scratch.dbranch), scratch.dmixed);
    attention_.backward(p, tape.qkv, tape.mixed, tape.log_sums, scratch.dmixed, scratch.dqkv);
    ln_1_.again(p, x, tape.norm_1, scratch.normal);
    c_attn_.backward(p, scratch.normal, scratch.dqkv, scratch.normal);
    ln_1_.backward(p, x, tape.norm_1, scratch.normal, d);
  }
  /// What backward() does in two halves: `slopes` are what the first leaves for the second.
  template <class Open>
  void backward_inputs(Open const& p, Matrix const& x, Tape& tape, Scratch& scratch, Slopes& slopes, Matrix& d) const {
    slopes.normal_1.resize(x.rows(), x.cols());
    slopes.normal_2.resize(x.rows(), x.cols());
    slopes.fc.resize(x.rows(), 4 * x.cols());
    slopes.qkv.resize(x.rows(), 3 * x.cols());
    scratch.dmixed.resize(x.rows(), x.cols());

    mlp_dropout_.keep_backward(p, d, slopes.mlp);
    mlp_c_proj_.backward_gelu_inputs(p, tape.fc, slopes.mlp, slopes.fc);
    ln_2_.again(p, tape.middle, tape.norm_2, slopes.normal_2);
    c_fc_.backward_inputs(p, slopes.fc, scratch.normal);
    ln_2_.backward_inputs(p, tape.middle, tape.norm_2, scratch.normal, d, slopes.norm_2);

    attention_dropout_.keep_backward(p, d, slopes.attention);
    c_proj_.backward_inputs(p, slopes.attention, scratch.dmixed);
    attention_.backward(p, tape.qkv, tape.mixed, tape.log_sums, scratch.dmixed, slopes.qkv);
    ln_1_.again(p, x, tape.norm_1, slopes.normal_1);
    c_attn_.backward_inputs(p, slopes.qkv, scratch.normal);
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
  /// y = residual + what dropout leaves of x W + b
  template <class Open>
  static void add(Open const& p, Linear<Device> const& linear, Matrix const& x, Dropout<Device> const& dropout,
                  Matrix const& residual, Matrix& y) {
    if (dropout.on()) {
      linear.forward(p, x, y);
      dropout.add(p, residual, y);
    } else {
      linear.forward(p, x, residual, y);
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
