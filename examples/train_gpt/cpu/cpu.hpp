// SPDX-License-Identifier: Apache-2.0
/// The Device for a core of the CPU: runs the layers' math. Results are ready when a call returns.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "attention.hpp"
#include "batches.hpp"
#include "cpu/kernels/attention.hpp"
#include "cpu/kernels/cross_entropy.hpp"
#include "cpu/kernels/dropout.hpp"
#include "cpu/kernels/embedding.hpp"
#include "cpu/kernels/gelu.hpp"
#include "cpu/kernels/layer_norm.hpp"
#include "cpu/kernels/rows.hpp"
#include "cpu/matmul.hpp"
#include "cpu/memory.hpp"
#include "embedding.hpp"
#include "tensor_ranks.hpp"

namespace gpt::cpu {

/// T is float, bf16 or fp16; double in tests. Use it on the thread that made it.
template <class T>
class Cpu : public TensorRanks<Cpu<T>, T, cpu::Matrix<T>> {
 public:
  using Element = T;
  using Wide = WideOf<T>;
  using Seed = Wide;
  template <class V>
  using Matrix = cpu::Matrix<V>;
  using Batch = gpt::Batch;
  static constexpr bool keeps_hidden = false;  ///< Recomputed, because the library aims at little memory.
  static constexpr bool divides_layers = zeroth::Element<T>;
  static constexpr bool overwrites_logits = false;  ///< TensorParallel takes matrices without gaps.

  /// `matmul` and `tensor` must outlive it. If `tensor` is null, no layer is divided.
  explicit Cpu(Matmul& matmul, zeroth::TensorParallel* tensor = nullptr)
      : TensorRanks<Cpu, T, cpu::Matrix<T>>{tensor}, matmul_{matmul} {}

  [[nodiscard]] static std::int64_t tokens(Batch const& batch) { return std::ssize(batch.inputs); }
  static void expect_heads(AttentionHeads const& /*heads*/) {}

  void multiply(Product const& product) {
    matmul_(without_gelu(product));
    if (product.epilogue == Epilogue::bias_gelu) {
      cpu::gelu(static_cast<T const*>(product.inner), count_of(product), static_cast<T*>(product.out.data));
    } else if (product.epilogue == Epilogue::gelu_slope) {
      times_gelu_slope(static_cast<T const*>(product.inner), count_of(product), static_cast<T*>(product.out.data));
    }
  }
  /// Prepares such a product, so that multiply() does not allocate.
  void prepare(Product const& product) { matmul_.prepare(kind_of(without_gelu(product))); }
  /// Prepares the loss, so that it does not allocate.
  void prepare(Batch const& batch) { targets_.reserve(batch.targets.size()); }
  /// Prepares attention, so that it does not allocate.
  void prepare(AttentionHeads const& heads) { attention_.prepare(matmul_, heads); }
  void clear(Matrix<T>& matrix) const {
    std::memset(static_cast<void*>(matrix.data()), 0, static_cast<std::size_t>(matrix.count()) * sizeof(T));
  }
  void gelu(Matrix<T> const& inner, Matrix<T>& out) const { cpu::gelu(inner.data(), inner.count(), out.data()); }
  /// Adds `row` to each row of y.
  template <class View>
  void add_to_rows(View const& row, Matrix<T>& y) const {
    RowArray<Wide> wide(y.cols()), buffer(y.cols());
    wide = widened(row.data(), y.cols(), buffer);
    for (std::int64_t i = 0; i < y.rows(); ++i) {
      T* const to = y.data() + i * y.stride();
      store(widened(to, y.cols(), buffer) + wide, to, buffer);
    }
  }
  /// y += x
  void add(Matrix<T> const& x, Matrix<T>& y) const {
    RowArray<Wide> of_x(y.cols()), of_y(y.cols());
    for (std::int64_t i = 0; i < y.rows(); ++i) {
      T* const to = y.data() + i * y.stride();
      auto const more = widened(x.data() + i * x.stride(), x.cols(), of_x);
      store(widened(to, y.cols(), of_y) + more, to, of_y);
    }
  }

  /// Adds to a gradient.
  template <class Gradient>
  void add_column_sums(Matrix<T> const& values, Gradient const& gradient) const {
    RowArray<Wide> sum(values.cols()), buffer(values.cols());
    sum.setZero();
    for (std::int64_t i = 0; i < values.rows(); ++i) {
      sum += widened(values.data() + i * values.stride(), values.cols(), buffer);
    }
    contribute(sum, gradient.data(), gradient.beta(), buffer);
  }

  template <class View>
  void layer_norm(Matrix<T> const& x, View const& weight, View const& bias, LayerNormTape<Cpu>& tape,
                  Matrix<T>& y) const {
    layer_norm_statistics(x, tape.mean.data(), tape.rstd.data());
    layer_norm_again(x, weight, bias, tape, y);
  }
  template <class View>
  void layer_norm_again(Matrix<T> const& x, View const& weight, View const& bias, LayerNormTape<Cpu> const& tape,
                        Matrix<T>& y) const {
    cpu::layer_norm(x, NormParameters<T>{weight, bias}, tape.mean.data(), tape.rstd.data(), y);
  }
  template <class View, class Gradient>
  void layer_norm_backward(Matrix<T> const& x, View const& weight, LayerNormTape<Cpu> const& tape, Matrix<T> const& dy,
                           Matrix<T>& dx, Gradient const& dweight, Gradient const& dbias) const {
    RowArray<Wide> wide_weight(x.cols()), weight_sum, bias_sum;
    wide_weight = widened(weight.data(), x.cols(), wide_weight);
    cpu::layer_norm_backward(x, wide_weight, tape.mean.data(), tape.rstd.data(), dy, dx, weight_sum, bias_sum);
    contribute(weight_sum, dweight.data(), dweight.beta(), wide_weight);
    contribute(bias_sum, dbias.data(), dbias.beta(), wide_weight);
  }
  /// `sums`: [2, columns], for the gradients of weight and bias.
  template <class View>
  void layer_norm_backward_inputs(Matrix<T> const& x, View const& weight, LayerNormTape<Cpu> const& tape,
                                  Matrix<T> const& dy, Matrix<T>& dx, Matrix<Wide>& sums) const {
    RowArray<Wide> wide_weight(x.cols()), weight_sum, bias_sum;
    wide_weight = widened(weight.data(), x.cols(), wide_weight);
    cpu::layer_norm_backward(x, wide_weight, tape.mean.data(), tape.rstd.data(), dy, dx, weight_sum, bias_sum);
    std::copy_n(weight_sum.data(), x.cols(), sums.data());
    std::copy_n(bias_sum.data(), x.cols(), sums.data() + x.cols());
  }
  template <class Gradient>
  void layer_norm_backward_weights(Matrix<Wide> const& sums, Gradient const& dweight, Gradient const& dbias) const {
    RowArray<Wide> sum(sums.cols()), buffer(sums.cols());
    auto const add = [&](Wide const* row, Gradient const& gradient) {
      std::copy_n(row, sums.cols(), sum.data());
      contribute(sum, gradient.data(), gradient.beta(), buffer);
    };
    add(sums.data(), dweight);
    add(sums.data() + sums.cols(), dbias);
  }
  void copy(Matrix<T> const& from, Matrix<T>& to) const {
    to.resize(from.rows(), from.cols());
    std::copy_n(from.data(), from.count(), to.data());
  }

  void attend(AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<Wide>& log_sums, Matrix<T>& y) {
    attention_.forward(matmul_, heads, qkv, log_sums, y);
  }
  void attend_backward(AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<T> const& y,
                       Matrix<Wide> const& log_sums, Matrix<T> const& dy, Matrix<T>& dqkv) {
    attention_.backward(matmul_, heads, qkv, y, log_sums, dy, dqkv);
  }

  template <class View>
  void embed(Batch const& batch, View const& tokens, View const& positions, Matrix<T>& x) const {
    cpu::embed(batch, tokens.data(), positions.data(), positions.extent(0), x);
  }
  /// Writes zeros for tokens of other ranks.
  template <class View>
  void embed_part(Batch const& batch, View const& tokens, zeroth::VocabularyPart const& words, Matrix<T>& x) const {
    cpu::embed_part(batch, tokens.data(), words, x);
  }
  /// Adds to this rank's rows.
  template <class View>
  void add_positions(View const& positions, Matrix<T>& x) const {
    cpu::add_positions(positions.data(), positions.extent(0), this->first_own_row(x), x);
  }
  template <class Gradient>
  void embed_backward(Batch const& batch, Matrix<T> const& dx, Gradient const& tokens, Gradient const& positions) {
    auto const all = tokens.shape()[0];
    embed_backward(batch, dx, {0, all, all, all}, tokens, positions);
  }
  /// `tokens` has this rank's `words`, and `dx` all rows.
  template <class Gradient>
  void embed_backward(Batch const& batch, Matrix<T> const& dx, zeroth::VocabularyPart const& words,
                      Gradient const& tokens, Gradient const& positions) {
    embed_tokens_backward(batch, dx, words, token_order_, tokens);
    embed_positions_backward(dx, positions);
  }

  /// `to` may share the memory of `from`.
  void drop_out(Dropped const& dropped, Matrix<T> const& from, Matrix<T>& to) const {
    cpu::drop_out(dropped, from.count(), from.data(), to.data());
  }
  void add_dropped_out(Dropped const& dropped, Matrix<T> const& residual, Matrix<T>& y) const {
    cpu::add_dropped_out(dropped, y.count(), residual.data(), y.data());
  }

  /// The mean loss.
  [[nodiscard]] Wide cross_entropy(Matrix<Wide> const& logits, Batch const& batch, SoftmaxTape<Cpu>& tape) const {
    return cpu::cross_entropy(logits, batch.targets, tape.largest.data(), tape.sums.data(), tape.losses.data());
  }
  /// `dlogits` may share the memory of `logits`.
  void cross_entropy_backward(Matrix<Wide> const& logits, Batch const& batch, SoftmaxTape<Cpu> const& tape, Wide seed,
                              Matrix<T>& dlogits) const {
    cpu::cross_entropy_backward(logits, batch.targets, tape.largest.data(), tape.sums.data(),
                                seed / static_cast<Wide>(logits.rows()), dlogits);
  }
  /// The same if tensor ranks divide the vocabulary.
  [[nodiscard]] float cross_entropy_of_part(Matrix<float>& logits, Batch const& batch,
                                            zeroth::VocabularyPart const& words, SoftmaxTape<Cpu>& tape) {
    targets_.assign(batch.targets.begin(), batch.targets.end());
    return this->tensor().template cross_entropy<float>(to_read(logits), targets_, words, tape.of_part);
  }
  void cross_entropy_backward_of_part(Matrix<float>& logits, Batch const& /*batch*/,
                                      zeroth::VocabularyPart const& /*words*/, SoftmaxTape<Cpu> const& tape, float seed,
                                      Matrix<T>& dlogits) const {
    this->tensor().cross_entropy_backward(to_read(logits), tape.of_part, seed, this->whole(dlogits));
  }
  void copy_elements(T const* from, std::int64_t count, T* to) const { std::copy_n(from, count, to); }

 private:
  /// GELU is a separate pass after the product.
  [[nodiscard]] static Product without_gelu(Product product) {
    if (product.epilogue == Epilogue::bias_gelu) {
      product.out.data = product.inner;
      product.epilogue = Epilogue::bias;
    } else if (product.epilogue == Epilogue::gelu_slope) {
      product.epilogue = Epilogue::none;
    }
    return product;
  }
  [[nodiscard]] static auto to_read(Matrix<float> const& matrix) {
    return zeroth::View<float const, 2>{matrix.data(), {matrix.rows(), matrix.cols()}};
  }
  [[nodiscard]] static std::int64_t count_of(Product const& product) {
    auto const kind = kind_of(product);
    return kind.m * kind.n;
  }

  Matmul& matmul_;
  HeadAttention<T> attention_;
  TokenOrder token_order_;
  std::vector<std::int64_t> targets_;
};

}  // namespace gpt::cpu
