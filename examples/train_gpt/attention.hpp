// SPDX-License-Identifier: Apache-2.0
/// Causal self-attention over several heads.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "parameters.hpp"

namespace gpt {

/// Works on groups of query rows and only on the keys up to each group's last row, so that little more than the lower
/// triangle of the scores is computed. Keeps one number per row and head (the logarithm of the softmax's denominator)
/// and computes the scores once more in backward, instead of keeping context^2 of them.
template <class S>
class Attention {
 public:
  struct Scratch {
    Matrix<S> probabilities, dscores;  // [query_rows, context]
  };

  Attention(std::int64_t heads, std::int64_t channels, std::int64_t context)
      : heads_{heads}, channels_{channels}, context_{context}, scale_{1 / std::sqrt(static_cast<S>(width()))} {}

  /// qkv: [tokens, 3 * channels], queries then keys then values. y: [tokens, channels]. log_sums: [tokens, heads].
  void forward(In<S> qkv, Matrix<S>& log_sums, Scratch& scratch, Out<S> y) const {
    log_sums.resize(qkv.rows(), heads_);
    scratch.probabilities.resize(query_rows, context_);
    each_group(qkv.rows(), [&](Group const& g) {
      auto p = scratch.probabilities.topLeftCorner(g.rows, g.keys);
      p.noalias() = queries(qkv, g) * keys(qkv, g).transpose();
      for (Eigen::Index i = 0; i < g.rows; ++i) {
        auto const past = g.keys - g.rows + i + 1;
        auto row = p.row(i).head(past).array();
        S const largest = row.maxCoeff();
        row = ((row - largest) * scale_).exp();
        S const sum = row.sum();
        row *= 1 / sum;
        p.row(i).tail(g.keys - past).setZero();
        log_sums(g.query + i, g.head) = largest * scale_ + std::log(sum);
      }
      y.block(g.query, g.head * width(), g.rows, width()).noalias() = p * values(qkv, g);
    });
  }

  void backward(In<S> qkv, In<S> y, In<S> log_sums, Scratch& scratch, In<S> dy, Out<S> dqkv) const {
    scratch.probabilities.resize(query_rows, context_);
    scratch.dscores.resize(query_rows, context_);
    each_group(qkv.rows(), [&](Group const& g) {
      auto const dout = dy.block(g.query, g.head * width(), g.rows, width());
      auto const out = y.block(g.query, g.head * width(), g.rows, width());
      auto p = scratch.probabilities.topLeftCorner(g.rows, g.keys);
      auto ds = scratch.dscores.topLeftCorner(g.rows, g.keys);
      p.noalias() = queries(qkv, g) * keys(qkv, g).transpose();
      ds.noalias() = dout * values(qkv, g).transpose();
      for (Eigen::Index i = 0; i < g.rows; ++i) {
        auto const past = g.keys - g.rows + i + 1;
        auto row = p.row(i).head(past).array();
        auto drow = ds.row(i).head(past).array();
        S const along = dout.row(i).dot(out.row(i));
        row = (row * scale_ - log_sums(g.query + i, g.head)).exp();
        drow = (drow - along) * row * scale_;
        p.row(i).tail(g.keys - past).setZero();
        ds.row(i).tail(g.keys - past).setZero();
      }
      queries(dqkv, g).noalias() = ds * keys(qkv, g);
      if (g.keys == context_) {  // the first group of its sequence: it reaches all keys
        keys(dqkv, g).noalias() = ds.transpose() * queries(qkv, g);
        values(dqkv, g).noalias() = p.transpose() * dout;
      } else {
        keys(dqkv, g).noalias() += ds.transpose() * queries(qkv, g);
        values(dqkv, g).noalias() += p.transpose() * dout;
      }
    });
  }

 private:
  static constexpr Eigen::Index query_rows = 64;

  /// Rows [query, query + rows) of one head, and the keys that they may see: [first_key, first_key + keys).
  struct Group {
    Eigen::Index query, rows, first_key, keys, head;
  };

  [[nodiscard]] Eigen::Index width() const { return channels_ / heads_; }
  [[nodiscard]] auto queries(auto& qkv, Group const& g) const {
    return qkv.block(g.query, g.head * width(), g.rows, width());
  }
  [[nodiscard]] auto keys(auto& qkv, Group const& g) const {
    return qkv.block(g.first_key, channels_ + g.head * width(), g.keys, width());
  }
  [[nodiscard]] auto values(auto& qkv, Group const& g) const {
    return qkv.block(g.first_key, 2 * channels_ + g.head * width(), g.keys, width());
  }

  /// Of each sequence and head the last group first.
  template <class F>
  void each_group(Eigen::Index tokens, F const& f) const {
    for (Eigen::Index sequence = 0; sequence < tokens; sequence += context_) {
      for (Eigen::Index head = 0; head < heads_; ++head) {
        for (Eigen::Index end = context_; end > 0;) {
          auto const first = (end - 1) / query_rows * query_rows;
          f(Group{.query = sequence + first, .rows = end - first, .first_key = sequence, .keys = end, .head = head});
          end = first;
        }
      }
    }
  }

  Eigen::Index heads_, channels_, context_;
  S scale_;
};

}  // namespace gpt
