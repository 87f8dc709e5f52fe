// SPDX-License-Identifier: Apache-2.0
/// One transformer block: attention and an MLP, each behind a LayerNorm and added to what came in.
#pragma once
#include "attention.hpp"
#include "gelu.hpp"
#include "layer_norm.hpp"
#include "linear.hpp"
#include "shape.hpp"

namespace gpt {

template <class S>
class Block {
 public:
  /// What backward needs beside the block's input: 9 * channels and a little more per token.
  struct Tape {
    typename LayerNorm<S>::Tape norm_1, norm_2;
    Matrix<S> qkv, log_sums, mixed, middle, fc;
  };
  /// Nothing in it outlives a call; one serves all blocks.
  struct Scratch {
    Matrix<S> normal, hidden, slope, dmixed, dqkv;
    typename Attention<S>::Scratch attention;
  };

  Block(BlockParams const& p, Shape const& s)
      : unit_{p.unit},
        ln_1_{p.ln_1},
        c_attn_{p.c_attn},
        attention_{s.heads, s.channels, s.context},
        c_proj_{p.c_proj},
        ln_2_{p.ln_2},
        c_fc_{p.c_fc},
        mlp_c_proj_{p.mlp_c_proj} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// All but the output: what backward needs.
  void forward(Parameters<S> const& p, Matrix<S> const& x, Tape& tape, Scratch& scratch) const {
    auto const tokens = x.rows();
    auto const channels = x.cols();
    scratch.normal.resize(tokens, channels);
    tape.qkv.resize(tokens, 3 * channels);
    tape.mixed.resize(tokens, channels);
    tape.middle.resize(tokens, channels);
    tape.fc.resize(tokens, 4 * channels);
    ln_1_.forward(p, x, tape.norm_1, scratch.normal);
    c_attn_.forward(p, scratch.normal, tape.qkv);
    attention_.forward(tape.qkv, tape.log_sums, scratch.attention, tape.mixed);
    c_proj_.forward(p, tape.mixed, x, tape.middle);
    ln_2_.forward(p, tape.middle, tape.norm_2, scratch.normal);
    c_fc_.forward(p, scratch.normal, tape.fc);
  }
  void output(Parameters<S> const& p, Tape const& tape, Scratch& scratch, Matrix<S>& y) const {
    scratch.hidden.resizeLike(tape.fc);
    y.resizeLike(tape.middle);
    gelu<S>(tape.fc, scratch.hidden);
    mlp_c_proj_.forward(p, scratch.hidden, tape.middle, y);
  }

  /// `d` is the gradient of the output, then of the input.
  void backward(Gradients<S> const& p, Matrix<S> const& x, Tape const& tape, Scratch& scratch, Matrix<S>& d) const {
    auto& [normal, hidden, slope, dmixed, dqkv, attention] = scratch;
    normal.resizeLike(x);
    hidden.resizeLike(tape.fc);
    slope.resizeLike(tape.fc);
    dmixed.resizeLike(x);
    dqkv.resizeLike(tape.qkv);

    gelu_and_slope<S>(tape.fc, hidden, slope);
    mlp_c_proj_.backward(p, hidden, d, hidden);
    hidden.array() *= slope.array();
    ln_2_.again(p, tape.middle, tape.norm_2, normal);
    c_fc_.backward(p, normal, hidden, normal);
    ln_2_.backward(p, tape.middle, tape.norm_2, normal, d);

    c_proj_.backward(p, tape.mixed, d, dmixed);
    attention_.backward(tape.qkv, tape.mixed, tape.log_sums, attention, dmixed, dqkv);
    ln_1_.again(p, x, tape.norm_1, normal);
    c_attn_.backward(p, normal, dqkv, normal);
    ln_1_.backward(p, x, tape.norm_1, normal, d);
  }

 private:
  zeroth::Unit unit_;
  LayerNorm<S> ln_1_;
  Linear<S> c_attn_;
  Attention<S> attention_;
  Linear<S> c_proj_;
  LayerNorm<S> ln_2_;
  Linear<S> c_fc_, mlp_c_proj_;
};

}  // namespace gpt
