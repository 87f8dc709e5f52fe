// SPDX-License-Identifier: Apache-2.0
/// Causal attention, one head at a time. Works on groups of query rows and only on the keys up to each group's last
/// row, so that little more than the lower triangle of the scores is computed.
#pragma once
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "attention_heads.hpp"
#include "cpu/kernels/rows.hpp"
#include "cpu/matmul.hpp"
#include "cpu/memory.hpp"

namespace gpt::cpu {

template <class T>
class HeadAttention {
 public:
  using S = WideOf<T>;

  /// Allocates the memory for one head; later calls allocate no more.
  void prepare(Matmul& multiply, AttentionHeads heads) {
    heads.count = 1;
    Matrix<T> qkv, y, dy, dqkv;
    Matrix<S> log_sums;
    log_sums.resize(heads.context, 1);
    for (auto* const zeros : {&qkv, &dqkv, &y, &dy}) {
      zeros->resize(heads.context, zeros == &qkv || zeros == &dqkv ? 3 * heads.width : heads.width);
      std::fill_n(zeros->data(), zeros->count(), T{});
    }
    forward(multiply, heads, qkv, log_sums, y);
    backward(multiply, heads, qkv, y, log_sums, dy, dqkv);
  }

  /// qkv: [tokens, 3 * channels], queries then keys then values. y: [tokens, channels]. log_sums: [tokens, heads].
  void forward(Matmul& multiply, AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<S>& log_sums, Matrix<T>& y) {
    each_head(heads, qkv.rows(), [&](std::int64_t sequence, std::int64_t head) {
      unpack_inputs(heads, qkv, sequence, head);
      out_.resize(heads.context, heads.width);
      each_group(heads.context, [&](Group const& g) {
        compute_scores(multiply, g, heads);
        softmax(g, heads, log_sums.data() + sequence * heads.count + head);
        multiply({.a = operand(probabilities()), .b = first(v_, g.keys), .out = rows_of(out_, g)});
      });
      copy_columns(out_, y, sequence, head * heads.width);
    });
  }

  void backward(Matmul& multiply, AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<T> const& y,
                Matrix<S> const& log_sums, Matrix<T> const& dy, Matrix<T>& dqkv) {
    auto const channels = heads.channels();
    each_head(heads, qkv.rows(), [&](std::int64_t sequence, std::int64_t head) {
      auto const column = head * heads.width;
      unpack_inputs(heads, qkv, sequence, head);
      gather_columns(y, sequence, column, heads, out_);
      gather_columns(dy, sequence, column, heads, dout_);
      dq_.resize(heads.context, heads.width);
      dk_.resize(heads.context, heads.width);
      dv_.resize(heads.context, heads.width);
      each_group(heads.context, [&](Group const& g) {
        compute_scores(multiply, g, heads);
        dscores_.resize(g.rows, g.keys);
        multiply({.a = operand_of(dout_, g), .b = transposed(first(v_, g.keys)), .out = result(dscores_)});
        slope(g, heads, log_sums.data() + sequence * heads.count + head);
        // The first group covers all keys, and overwrites the sums.
        float const beta = g.keys == heads.context ? 0.0F : 1.0F;
        multiply({.a = operand(dprobabilities()), .b = first(k_, g.keys), .out = rows_of(dq_, g)});
        multiply(
            {.a = transposed(operand(dprobabilities())), .b = operand_of(q_, g), .out = result(dk_), .beta = beta});
        multiply(
            {.a = transposed(operand(probabilities())), .b = operand_of(dout_, g), .out = result(dv_), .beta = beta});
      });
      copy_columns(dq_, dqkv, sequence, column);
      copy_columns(dk_, dqkv, sequence, channels + column);
      copy_columns(dv_, dqkv, sequence, 2 * channels + column);
    });
  }

 private:
  static constexpr std::int64_t query_rows = 64;

  /// Query rows [query, query + rows) of a sequence, and the keys [0, keys) visible to them.
  struct Group {
    std::int64_t query, rows, keys;
    /// Number of keys that row i sees.
    [[nodiscard]] std::int64_t past(std::int64_t i) const { return query + i + 1; }
  };

  template <class F>
  static void each_head(AttentionHeads const& heads, std::int64_t tokens, F const& f) {
    for (std::int64_t sequence = 0; sequence < tokens; sequence += heads.context) {
      for (std::int64_t head = 0; head < heads.count; ++head) {
        f(sequence, head);
      }
    }
  }
  /// Starts with the last group.
  template <class F>
  static void each_group(std::int64_t context, F const& f) {
    for (auto end = context; end > 0;) {
      auto const query = (end - 1) / query_rows * query_rows;
      f(Group{.query = query, .rows = end - query, .keys = end});
      end = query;
    }
  }

  // A head's rows are strided in their matrices, which fast products do not accept, so they are copied.
  static void gather_columns(Matrix<T> const& from, std::int64_t row, std::int64_t column, AttentionHeads const& heads,
                             Matrix<T>& to) {
    to.resize(heads.context, heads.width);
    for (std::int64_t i = 0; i < heads.context; ++i) {
      std::copy_n(from.data() + (row + i) * from.stride() + column, heads.width, to.data() + i * heads.width);
    }
  }
  template <class V>
  void copy_columns(Matrix<V> const& from, Matrix<T>& to, std::int64_t row, std::int64_t column) {
    for (std::int64_t i = 0; i < from.rows(); ++i) {
      V const* const source = from.data() + i * from.cols();
      T* const target = to.data() + (row + i) * to.stride() + column;
      if constexpr (std::same_as<V, T>) {
        std::copy_n(source, from.cols(), target);
      } else {
        row_.resize(from.cols());
        store(ConstRow<V>{source, from.cols()}, target, row_);
      }
    }
  }
  void unpack_inputs(AttentionHeads const& heads, Matrix<T> const& qkv, std::int64_t sequence, std::int64_t head) {
    auto const column = head * heads.width;
    gather_columns(qkv, sequence, column, heads, q_);
    gather_columns(qkv, sequence, heads.channels() + column, heads, k_);
    gather_columns(qkv, sequence, 2 * heads.channels() + column, heads, v_);
  }

  [[nodiscard]] static Operand first(Matrix<T> const& m, std::int64_t rows) {
    return {m.data(), math_dtype<T>, rows, m.cols(), m.cols()};
  }
  [[nodiscard]] static Operand operand_of(Matrix<T> const& m, Group const& g) {
    return {m.data() + g.query * m.cols(), math_dtype<T>, g.rows, m.cols(), m.cols()};
  }
  [[nodiscard]] static Result rows_of(Matrix<T>& m, Group const& g) {
    return {m.data() + g.query * m.cols(), math_dtype<T>, m.cols()};
  }
  /// Shares the memory of the scores if both have one type.
  [[nodiscard]] Matrix<T>& probabilities() { return either(scores_, probabilities_); }
  [[nodiscard]] Matrix<T>& dprobabilities() { return either(dscores_, dprobabilities_); }
  [[nodiscard]] static Matrix<T>& either([[maybe_unused]] Matrix<S>& wide, [[maybe_unused]] Matrix<T>& narrow) {
    if constexpr (std::same_as<S, T>) {
      return wide;
    } else {
      narrow.resize(wide.rows(), wide.cols());
      return narrow;
    }
  }

  void compute_scores(Matmul& multiply, Group const& g, AttentionHeads const& heads) {
    auto const longest = std::max(heads.context, heads.width);  // the buffers hold rows of scores, and of channels
    row_.resize(longest);
    drow_.resize(longest);
    scores_.resize(g.rows, g.keys);
    multiply({.a = operand_of(q_, g), .b = transposed(first(k_, g.keys)), .out = result(scores_)});
  }
  /// Turns scores into probabilities. `log_sums` are those of the sequence's rows, with stride `heads.count`.
  void softmax(Group const& g, AttentionHeads const& heads, S* log_sums) {
    auto const scale = heads.scale<S>();
    auto& probabilities = this->probabilities();
    for (std::int64_t i = 0; i < g.rows; ++i) {
      auto const past = g.past(i);
      Row<S> row{scores_.data() + i * g.keys, past};
      S const largest = row.maxCoeff();
      row = ((row - largest) * scale).exp();
      S const sum = row.sum();
      T* const to = probabilities.data() + i * g.keys;
      store(row * (1 / sum), to, row_);
      std::fill(to + past, to + g.keys, T{});
      log_sums[(g.query + i) * heads.count] = largest * scale + std::log(sum);
    }
  }
  /// Turns scores into probabilities, and gradients of probabilities into gradients of scores.
  void slope(Group const& g, AttentionHeads const& heads, S const* log_sums) {
    auto const scale = heads.scale<S>();
    auto& probabilities = this->probabilities();
    auto& dprobabilities = this->dprobabilities();
    for (std::int64_t i = 0; i < g.rows; ++i) {
      auto const past = g.past(i);
      auto const at = (g.query + i) * heads.width;
      S const along =
          (widened(dout_.data() + at, heads.width, row_) * widened(out_.data() + at, heads.width, drow_)).sum();
      Row<S> row{scores_.data() + i * g.keys, past};
      Row<S> const drow{dscores_.data() + i * g.keys, past};
      row = (row * scale - log_sums[(g.query + i) * heads.count]).exp();
      T* const dto = dprobabilities.data() + i * g.keys;
      store((drow - along) * row * scale, dto, drow_);
      std::fill(dto + past, dto + g.keys, T{});
      T* const to = probabilities.data() + i * g.keys;
      store(row, to, row_);
      std::fill(to + past, to + g.keys, T{});
    }
  }

  Matrix<T> q_, k_, v_, out_, dout_, dq_;  // [context, width]
  Matrix<S> dk_, dv_;                      // sums over the groups
  Matrix<S> scores_, dscores_;             // [rows, keys] of a group
  Matrix<T> probabilities_, dprobabilities_;
  RowArray<S> row_, drow_;
};

}  // namespace gpt::cpu
