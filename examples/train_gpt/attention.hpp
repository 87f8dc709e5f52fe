// SPDX-License-Identifier: Apache-2.0
/// Causal self-attention over several heads.
#pragma once
#include "attention_heads.hpp"
#include "math.hpp"

namespace gpt {

/// Keeps one number per row and head, the logarithm of the softmax's denominator, and recomputes the scores in
/// backward, instead of keeping context^2 of them.
template <class Device>
class Attention {
 public:
  using Matrix = Activations<Device>;

  /// `channels` and `key_blocks` are those of all heads or of this rank's heads. `key_blocks` must outlive it; null
  /// means dense attention.
  Attention(Shape const& s, std::int64_t channels, KeyBlocks const* key_blocks)
      : heads_{.count = channels / (s.channels / s.heads),
               .width = s.channels / s.heads,
               .context = s.context,
               .key_blocks = key_blocks} {
    Device::expect_heads(heads_);
  }

  /// qkv: [tokens, 3 * channels], queries then keys then values. y: [tokens, channels]. log_sums: [tokens, heads].
  template <class Open>
  void forward(Open const& p, Matrix const& qkv, Sums<Device>& log_sums, Matrix& y) const {
    log_sums.resize(qkv.rows(), heads_.count);
    p.device.attend(heads_, qkv, log_sums, y);
  }
  template <class Open>
  void backward(Open const& p, Matrix const& qkv, Matrix const& y, Sums<Device> const& log_sums, Matrix const& dy,
                Matrix& dqkv) const {
    p.device.attend_backward(heads_, qkv, y, log_sums, dy, dqkv);
  }

 private:
  AttentionHeads heads_;
};

}  // namespace gpt
