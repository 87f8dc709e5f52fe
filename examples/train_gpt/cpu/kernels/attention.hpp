// SPDX-License-Identifier: Apache-2.0
/// Causal attention, one head at a time. Works on groups of query rows, and only on keys that a row of the group reads.
/// Without a layout of blocks these are the keys up to its last row, so it computes little more than the lower triangle
/// of the scores.
#pragma once
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>

#include "attention_heads.hpp"
#include "cpu/kernels/rows.hpp"
#include "cpu/matmul.hpp"
#include "cpu/memory.hpp"
#include "key_blocks.hpp"

namespace gpt::cpu {

template <class T>
class HeadAttention {
 public:
  using S = WideOf<T>;

  /// Allocates the memory for one head; later calls allocate no more.
  void prepare(Matmul& multiply, AttentionHeads heads) {
    if (heads.key_blocks != nullptr) {  // prepares products of the shapes in all lists
      heads.count = heads.key_blocks->distinct_heads().back() + 1;
    } else {
      heads.count = 1;
    }
    auto const channels = heads.channels();
    Matrix<T> qkv, y, dy, dqkv;
    Matrix<S> log_sums;
    log_sums.resize(heads.context, heads.count);
    for (auto* const zeros : {&qkv, &dqkv, &y, &dy}) {
      zeros->resize(heads.context, zeros == &qkv || zeros == &dqkv ? 3 * channels : channels);
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
      for (auto const& g : lists_of(heads).groups(head)) {
        compute_scores(multiply, g, heads);
        softmax(g, heads, log_sums.data() + sequence * heads.count + head);
        multiply({.a = operand(probabilities()), .b = packed(v_, g, packed_v_), .out = rows_of(out_, g)});
      }
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
      auto const groups = lists_of(heads).groups(head);
      // Without a layout of blocks the first group covers all keys, and overwrites the sums.
      bool const overwrites = groups.front().keys == heads.context;
      if (!overwrites) {
        std::fill_n(dk_.data(), dk_.count(), S{});
        std::fill_n(dv_.data(), dv_.count(), S{});
      }
      for (auto const& g : groups) {
        compute_scores(multiply, g, heads);
        dscores_.resize(g.rows, g.keys);
        multiply({.a = operand_of(dout_, g), .b = transposed(packed(v_, g, packed_v_)), .out = result(dscores_)});
        slope(g, heads, log_sums.data() + sequence * heads.count + head);
        bool const starts = overwrites && &g == &groups.front();
        multiply({.a = operand(dprobabilities()), .b = packed(k_, g, packed_k_), .out = rows_of(dq_, g)});
        add_to_keys(multiply, transposed(operand(dprobabilities())), operand_of(q_, g), g, starts, dk_);
        add_to_keys(multiply, transposed(operand(probabilities())), operand_of(dout_, g), g, starts, dv_);
      }
      copy_columns(dq_, dqkv, sequence, column);
      copy_columns(dk_, dqkv, sequence, channels + column);
      copy_columns(dv_, dqkv, sequence, 2 * channels + column);
    });
  }

 private:
  using Group = KeyBlocks::Group;

  [[nodiscard]] KeyBlocks const& lists_of(AttentionHeads const& heads) {
    if (heads.key_blocks != nullptr) {
      return *heads.key_blocks;
    }
    if (!dense_ || dense_->context() != heads.context) {
      dense_ = KeyBlocks::dense(heads.context);
    }
    return *dense_;
  }
  template <class F>
  static void each_head(AttentionHeads const& heads, std::int64_t tokens, F const& f) {
    for (std::int64_t sequence = 0; sequence < tokens; sequence += heads.context) {
      for (std::int64_t head = 0; head < heads.count; ++head) {
        f(sequence, head);
      }
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

  /// The group's rows of the keys or values `m`: in place if they follow each other, otherwise copied to `copies`.
  [[nodiscard]] static Operand packed(Matrix<T> const& m, Group const& g, Matrix<T>& copies) {
    if (g.runs.size() == 1) {
      return {m.data() + g.runs.front().key * m.cols(), math_dtype<T>, g.keys, m.cols(), m.cols()};
    }
    copies.resize(g.keys, m.cols());
    for (auto const& run : g.runs) {
      std::copy_n(m.data() + run.key * m.cols(), run.count * m.cols(), copies.data() + run.at * m.cols());
    }
    return operand(copies);
  }
  /// sums[keys of the group] = a b if it `starts` them, otherwise += a b
  void add_to_keys(Matmul& multiply, Operand const& a, Operand const& b, Group const& g, bool starts, Matrix<S>& sums) {
    if (g.runs.size() == 1) {
      auto out = result(sums);
      out.data = sums.data() + g.runs.front().key * sums.cols();
      multiply({.a = a, .b = b, .out = out, .beta = starts ? 0.0F : 1.0F});
      return;
    }
    packed_sums_.resize(g.keys, sums.cols());
    multiply({.a = a, .b = b, .out = result(packed_sums_)});
    for (auto const& run : g.runs) {
      Row<S> to{sums.data() + run.key * sums.cols(), run.count * sums.cols()};
      to += ConstRow<S>{packed_sums_.data() + run.at * sums.cols(), run.count * sums.cols()};
    }
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
    multiply({.a = operand_of(q_, g), .b = transposed(packed(k_, g, packed_k_)), .out = result(scores_)});
    for (std::int64_t i = 0; i < g.rows; ++i) {
      fill_holes(g, i, scores_, -std::numeric_limits<S>::infinity());
    }
  }
  /// Sets the values of keys that row i does not read.
  template <class V>
  static void fill_holes(Group const& g, std::int64_t i, Matrix<V>& matrix, V value) {
    for (auto const& hole : g.holes_of(i)) {
      std::fill(matrix.data() + i * g.keys + hole.first, matrix.data() + i * g.keys + hole.end, value);
    }
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
      fill_holes(g, i, probabilities, T{});  // fast exponentials are not exactly 0
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
      fill_holes(g, i, dprobabilities, T{});
      T* const to = probabilities.data() + i * g.keys;
      store(row, to, row_);
      std::fill(to + past, to + g.keys, T{});
      fill_holes(g, i, probabilities, T{});
    }
  }

  Matrix<T> q_, k_, v_, out_, dout_, dq_;  // [context, width]
  Matrix<S> dk_, dv_;                      // sums over the groups
  Matrix<T> packed_k_, packed_v_;          // [keys, width] of a group whose keys do not follow each other
  Matrix<S> packed_sums_;                  // the same
  std::optional<KeyBlocks> dense_;         // for heads without a layout of blocks
  Matrix<S> scores_, dscores_;             // [rows, keys] of a group
  Matrix<T> probabilities_, dprobabilities_;
  RowArray<S> row_, drow_;
};

}  // namespace gpt::cpu
