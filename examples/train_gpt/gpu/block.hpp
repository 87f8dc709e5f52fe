// SPDX-License-Identifier: Apache-2.0
/// One transformer block: attention and an MLP, each behind a LayerNorm and added to what came in.
#pragma once
#include "gpu/attention.hpp"
#include "gpu/layer_norm.hpp"
#include "gpu/linear.hpp"

namespace gpt::gpu {

template <zeroth::Element T>
class Block {
 public:
  /// What backward needs beside the block's input: 13 * channels and a little more per token. `hidden`, GELU of `fc`,
  /// is kept as well: to make it again is one more pass over the two widest matrices.
  struct Tape {
    typename LayerNorm<T>::Tape norm_1, norm_2;
    Matrix<T> qkv, mixed, middle, fc, hidden;
    Matrix<float> log_sums;
  };
  /// Nothing in it outlives a call; one serves all blocks.
  struct Scratch {
    Matrix<T> normal, dmixed, dqkv;
    typename Attention<T>::Scratch attention;
  };

  Block(BlockParams const& p, Shape const& s)
      : unit_{p.unit},
        ln_1_{p.ln_1},
        c_attn_{p.c_attn},
        attention_{s},
        c_proj_{p.c_proj},
        ln_2_{p.ln_2},
        c_fc_{p.c_fc},
        mlp_c_proj_{p.mlp_c_proj} {}

  [[nodiscard]] zeroth::Unit unit() const { return unit_; }

  /// All but the output: what backward needs.
  template <class Open>
  void forward(Open const& p, Matrix<T> const& x, Tape& tape, Scratch& scratch) const {
    auto const tokens = x.rows();
    auto const channels = x.cols();
    scratch.normal.resize(tokens, channels);
    tape.qkv.resize(tokens, 3 * channels);
    tape.mixed.resize(tokens, channels);
    tape.middle.resize(tokens, channels);
    tape.fc.resize(tokens, 4 * channels);
    tape.hidden.resize(tokens, 4 * channels);
    ln_1_.forward(p, x, tape.norm_1, scratch.normal);
    c_attn_.forward(p, scratch.normal, tape.qkv);
    attention_.forward(p.gpu, tape.qkv, tape.log_sums, tape.mixed);
    c_proj_.forward(p, tape.mixed, x, tape.middle);
    ln_2_.forward(p, tape.middle, tape.norm_2, scratch.normal);
    c_fc_.forward_gelu(p, scratch.normal, tape.fc, tape.hidden);
  }
  template <class Open>
  void output(Open const& p, Tape const& tape, Scratch& /*scratch*/, Matrix<T>& y) const {
    y.resize(tape.middle.rows(), tape.middle.cols());
    mlp_c_proj_.forward(p, tape.hidden, tape.middle, y);
  }

  /// `d` is the gradient of the output, then of the input. Uses up `hidden`.
  template <class Open>
  void backward(Open const& p, Matrix<T> const& x, Tape& tape, Scratch& scratch, Matrix<T>& d) const {
    auto& [normal, dmixed, dqkv, attention] = scratch;
    auto& hidden = tape.hidden;
    dmixed.resize(x.rows(), x.cols());
    dqkv.resize(x.rows(), 3 * x.cols());

    mlp_c_proj_.backward_gelu(p, hidden, tape.fc, d, hidden);
    ln_2_.again(p, tape.middle, tape.norm_2, normal);
    c_fc_.backward(p, normal, hidden, normal);
    ln_2_.backward(p, tape.middle, tape.norm_2, normal, d);

    c_proj_.backward(p, tape.mixed, d, dmixed);
    attention_.backward(p.gpu, tape.qkv, tape.mixed, tape.log_sums, attention, dmixed, dqkv);
    ln_1_.again(p, x, tape.norm_1, normal);
    c_attn_.backward(p, normal, dqkv, normal);
    ln_1_.backward(p, x, tape.norm_1, normal, d);
  }

 private:
  zeroth::Unit unit_;
  LayerNorm<T> ln_1_;
  Linear<T> c_attn_;
  Attention<T> attention_;
  Linear<T> c_proj_;
  LayerNorm<T> ln_2_;
  Linear<T> c_fc_, mlp_c_proj_;
};

}  // namespace gpt::gpu
