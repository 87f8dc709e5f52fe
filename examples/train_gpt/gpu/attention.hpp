// SPDX-License-Identifier: Apache-2.0
/// Causal self-attention over several heads.
#pragma once
#include <cmath>
#include <string>

#include "gpu/attention_kernels.hpp"
#include "gpu/gpu.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {

template <zeroth::Element T>
class Attention {
 public:
  struct Scratch {
    Matrix<float> along;  // [tokens, heads]
  };

  /// Throws ConfigError for heads that are wider than the kernels' tiles.
  explicit Attention(Shape const& s)
      : heads_{s.heads},
        channels_{s.channels},
        context_{s.context},
        scale_{1 / std::sqrt(static_cast<float>(width()))} {
    if (width() > widest_head) {
      throw zeroth::ConfigError{"--device cuda: a head has " + std::to_string(width()) + " channels (--channels " +
                                std::to_string(channels_) + ", --heads " + std::to_string(heads_) +
                                "); the attention kernels take up to " + std::to_string(widest_head)};
    }
  }

  /// qkv: [tokens, 3 * channels], queries then keys then values. y: [tokens, channels]. log_sums: [tokens, heads].
  void forward(Gpu& gpu, Matrix<T> const& qkv, Matrix<float>& log_sums, Matrix<T>& y) const {
    log_sums.resize(qkv.rows(), heads_);
    with_attention_kernels<T>(width(), [&]<class Kernels>(Kernels) {
      gpu.run(typename Kernels::Forward{qkv.data(), heads(qkv.rows()), scale_, y.data(), log_sums.data()});
    });
  }
  void backward(Gpu& gpu, Matrix<T> const& qkv, Matrix<T> const& y, Matrix<float> const& log_sums, Scratch& scratch,
                Matrix<T> const& dy, Matrix<T>& dqkv) const {
    scratch.along.resize(qkv.rows(), heads_);
    AttentionGiven<T> const given{qkv.data(),           dy.data(),         log_sums.data(),
                                  scratch.along.data(), heads(qkv.rows()), scale_};
    with_attention_kernels<T>(width(), [&]<class Kernels>(Kernels) {
      if constexpr (Kernels::on_tensor_cores) {
        gpu.run(typename Kernels::BackwardQueries{given, y.data(), scratch.along.data(), dqkv.data()});
      } else {
        gpu.run(AttentionAlong<T>{y.data(), dy.data(), qkv.rows() * heads_, width(), scratch.along.data()});
        gpu.run(typename Kernels::BackwardQueries{given, dqkv.data()});
      }
      gpu.run(typename Kernels::BackwardKeys{given, dqkv.data()});
    });
  }

 private:
  [[nodiscard]] std::int64_t width() const { return channels_ / heads_; }
  [[nodiscard]] Heads heads(std::int64_t tokens) const {
    return {static_cast<int>(tokens / context_), static_cast<int>(context_), static_cast<int>(heads_),
            static_cast<int>(width())};
  }

  std::int64_t heads_, channels_, context_;
  float scale_;
};

}  // namespace gpt::gpu
