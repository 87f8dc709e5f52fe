/// Causal self-attention over several heads.
#pragma once
#include <cmath>
#include <string>
#include <type_traits>

#include "gpu/gpu.hpp"
#include "gpu/kernels/attention.hpp"
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
    if (width() > widest) {
      throw zeroth::ConfigError{"--device cuda: a head has " + std::to_string(width()) + " channels (--channels " +
                                std::to_string(channels_) + ", --heads " + std::to_string(heads_) +
                                "); the attention kernels take up to " + std::to_string(widest)};
    }
  }

  /// qkv: [tokens, 3 * channels], queries then keys then values. y: [tokens, channels]. log_sums: [tokens, heads].
  void forward(Gpu& gpu, Matrix<T> const& qkv, Matrix<float>& log_sums, Matrix<T>& y) const {
    log_sums.resize(qkv.rows(), heads_);
    with_width([&](auto most) {
      gpu.run(AttentionForward<T, most()>{qkv.data(), heads(qkv.rows()), scale_, y.data(), log_sums.data()});
    });
  }
  void backward(Gpu& gpu, Matrix<T> const& qkv, Matrix<T> const& y, Matrix<float> const& log_sums, Scratch& scratch,
                Matrix<T> const& dy, Matrix<T>& dqkv) const {
    scratch.along.resize(qkv.rows(), heads_);
    gpu.run(AttentionAlong<T>{y.data(), dy.data(), qkv.rows() * heads_, width(), scratch.along.data()});
    AttentionGiven<T> const given{qkv.data(),           dy.data(),         log_sums.data(),
                                  scratch.along.data(), heads(qkv.rows()), scale_};
    with_width([&](auto most) {
      gpu.run(AttentionBackwardQueries<T, most()>{given, dqkv.data()});
      gpu.run(AttentionBackwardKeys<T, most()>{given, dqkv.data()});
    });
  }

 private:
  static constexpr std::int64_t widest = 128;

  [[nodiscard]] std::int64_t width() const { return channels_ / heads_; }
  [[nodiscard]] Heads heads(std::int64_t tokens) const { return {tokens / context_, context_, heads_, width()}; }
  /// Calls `f` with the narrowest tiles that a head fits.
  template <class F>
  void with_width(F const& f) const {
    if (width() <= 32) {
      f(std::integral_constant<int, 32>{});
    } else if (width() <= 64) {
      f(std::integral_constant<int, 64>{});
    } else {
      f(std::integral_constant<int, 128>{});
    }
  }

  std::int64_t heads_, channels_, context_;
  float scale_;
};

}  // namespace gpt::gpu
