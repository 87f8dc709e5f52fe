// SPDX-License-Identifier: Apache-2.0
/// The Device for GPUs: runs the layers' math as kernels on a stream.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "attention.hpp"
#include "embedding.hpp"
#include "gpu/attention_kernels.hpp"
#include "gpu/attention_lists.hpp"
#include "gpu/batch.hpp"
#include "gpu/cudnn_attention.hpp"
#include "gpu/kernels/columns.hpp"
#include "gpu/kernels/cross_entropy.hpp"
#include "gpu/kernels/cross_entropy_part.hpp"
#include "gpu/kernels/dropout.hpp"
#include "gpu/kernels/embedding.hpp"
#include "gpu/kernels/layer_norm.hpp"
#include "gpu/launch.hpp"
#include "gpu/matmul.hpp"
#include "gpu/memory.hpp"
#include "tensor_ranks.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/engine/pass.hpp"

namespace gpt::gpu {

template <class M>
[[nodiscard]] auto rows_of(M& matrix) {
  return StridedRows<std::remove_pointer_t<decltype(matrix.data())>>{matrix.data(), matrix.rows(), matrix.cols(),
                                                                     matrix.stride()};
}

/// A stream and the work on it. All calls enqueue work and return. Throws SystemError if a launch fails.
template <zeroth::Element T>
class Gpu : public TensorRanks<Gpu<T>, T, gpu::Matrix<T>> {
 public:
  using Element = T;
  using Wide = float;
  using Seed = gpu::Seed;
  template <class V>
  using Matrix = gpu::Matrix<V>;
  using Batch = DeviceBatch;
  static constexpr bool keeps_hidden = true;  ///< Recomputing it would be one more pass over the two widest matrices.
  static constexpr bool divides_layers = true;
  static constexpr bool overwrites_logits = true;

  /// `tensor` computes on the same stream, and must outlive it. If it is null, no layer is divided. `cudnn` computes
  /// attention on the same stream. If it is null, own kernels do.
  Gpu(cudaStream_t stream, MatmulOptions const& options, zeroth::TensorParallel* tensor = nullptr,
      std::unique_ptr<CudnnAttention> cudnn = nullptr)
      : TensorRanks<Gpu, T, gpu::Matrix<T>>{tensor},
        stream_{stream},
        matmul_{stream, options},
        cudnn_{std::move(cudnn)} {}

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  [[nodiscard]] static std::int64_t tokens(Batch const& batch) { return batch.tokens; }
  /// Throws ConfigError for heads wider than the kernels' tiles.
  static void expect_heads(AttentionHeads const& heads) {
    if (heads.width > widest_head) {
      throw zeroth::ConfigError{"--device cuda: a head has " + std::to_string(heads.width) + " channels (--channels " +
                                std::to_string(heads.channels()) + ", --heads " + std::to_string(heads.count) +
                                "); the attention kernels take up to " + std::to_string(widest_head)};
    }
  }

  void multiply(Product const& product) { matmul_(product); }
  void clear(Matrix<T>& matrix) const {
    expect(cudaMemsetAsync(matrix.data(), 0, static_cast<std::size_t>(matrix.count()) * sizeof(T), stream_),
           "cudaMemsetAsync");
  }
  void copy_elements(T const* from, std::int64_t count, T* to) const {
    expect(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T), cudaMemcpyDefault, stream_),
           "cudaMemcpyAsync of activations");
  }
  /// Adds `row` to each row of y.
  template <class View>
  void add_to_rows(View const& row, Matrix<T>& y) const {
    run(AddRows<T>{{y.rows(), y.cols()}, row.data(), 1, 0, y.data()});
  }
  /// y += x
  void add(Matrix<T> const& x, Matrix<T>& y) const {
    run(AddRows<T>{{y.rows(), y.cols()}, x.data(), y.rows(), 0, y.data()});
  }
  /// Adds the sums to a gradient.
  template <class Gradient>
  void add_column_sums(Matrix<T> const& values, Gradient const& gradient) {
    auto const chunks = ChunkSums<T>::chunks_of(values.rows());
    float* const sums = partial_sums(chunks * values.cols());
    run(ChunkSums<T>{values.data(), values.rows(), values.cols(), sums});
    add_chunks(sums, values.cols(), chunks, gradient);
  }

  template <class View>
  void layer_norm(Matrix<T> const& x, View const& weight, View const& bias, LayerNormTape<Gpu>& tape,
                  Matrix<T>& y) const {
    run(LayerNormForward<T>{norm_rows(x, weight, bias, y), tape.mean.data(), tape.rstd.data()});
  }
  template <class View>
  void layer_norm_again(Matrix<T> const& x, View const& weight, View const& bias, LayerNormTape<Gpu> const& tape,
                        Matrix<T>& y) const {
    run(LayerNormAgain<T>{norm_rows(x, weight, bias, y), tape.mean.data(), tape.rstd.data()});
  }
  template <class View, class Gradient>
  void layer_norm_backward(Matrix<T> const& x, View const& weight, LayerNormTape<Gpu> const& tape, Matrix<T> const& dy,
                           Matrix<T>& dx, Gradient const& dweight, Gradient const& dbias) {
    auto const chunks = LayerNormBackward<T>::chunks_of(x.rows());
    float* const sums = partial_sums(chunks * 2 * x.cols());
    run(LayerNormBackward<T>{x.data(), dy.data(), weight.data(), tape.mean.data(), tape.rstd.data(), x.rows(), x.cols(),
                             dx.data(), sums});
    add_chunks(sums, 2 * x.cols(), chunks, dweight);
    add_chunks(sums + x.cols(), 2 * x.cols(), chunks, dbias);
  }

  void attend(AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<float>& log_sums, Matrix<T>& y) {
    if (cudnn_ != nullptr) {
      return cudnn_->forward(cudnn_shape(heads, qkv), qkv.data(), log_sums.data(), y.data());
    }
    with_attention(heads, [&]<class Kernels>(Kernels, auto const& reads) {
      run(typename Kernels::Forward{qkv.data(), kernel_heads(heads, qkv.rows()), heads.scale<float>(), y.data(),
                                    log_sums.data(), reads.forward});
    });
  }
  void attend_backward(AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<T> const& y,
                       Matrix<float> const& log_sums, Matrix<T> const& dy, Matrix<T>& dqkv) {
    if (cudnn_ != nullptr) {
      return cudnn_->backward(cudnn_shape(heads, qkv), qkv.data(), y.data(), log_sums.data(), dy.data(), dqkv.data());
    }
    along_.resize(qkv.rows(), heads.count);
    AttentionGiven<T> const given{
        qkv.data(), dy.data(), log_sums.data(), along_.data(), kernel_heads(heads, qkv.rows()), heads.scale<float>()};
    with_attention(heads, [&]<class Kernels>(Kernels, auto const& reads) {
      if constexpr (Kernels::on_tensor_cores) {
        run(typename Kernels::BackwardQueries{given, y.data(), along_.data(), dqkv.data(), reads.backward_queries});
      } else {
        run(AttentionAlong<T>{y.data(), dy.data(), qkv.rows() * heads.count, heads.width, along_.data()});
        run(typename Kernels::BackwardQueries{given, dqkv.data(), reads.backward_queries});
      }
      run(typename Kernels::BackwardKeys{given, dqkv.data(), reads.backward_keys});
    });
  }

  template <class View>
  void embed(Batch const& batch, View const& tokens, View const& positions, Matrix<T>& x) const {
    run(Embed<T>{{x.rows(), x.cols()}, batch.inputs, tokens.data(), positions.data(), positions.extent(0), x.data()});
  }
  /// Writes zeros for tokens of other ranks.
  template <class View>
  void embed_part(Batch const& batch, View const& tokens, zeroth::VocabularyPart const& words, Matrix<T>& x) const {
    run(EmbedPart<T>{{x.rows(), x.cols()}, batch.inputs, tokens.data(), words.first, words.count, x.data()});
  }
  /// Adds to this rank's rows.
  template <class View>
  void add_positions(View const& positions, Matrix<T>& x) const {
    run(AddRows<T>{{x.rows(), x.cols()}, positions.data(), positions.extent(0), this->first_own_row(x), x.data()});
  }
  /// `tokens` has this rank's `words`, and `dx` all rows.
  template <class Gradient>
  void embed_backward(Batch const& batch, Matrix<T> const& dx, zeroth::VocabularyPart const& words,
                      Gradient const& tokens, Gradient const& positions) const {
    using G = std::remove_pointer_t<decltype(tokens.data())>;
    run(EmbedTokensBackward<T, G>{dx.data(), batch.order, batch.first + words.first, words.count, dx.cols(),
                                  tokens.data(), tokens.beta()});
    run(EmbedPositionsBackward<T, G>{dx.data(), dx.rows(), dx.cols(), positions.shape()[0], positions.data(),
                                     positions.beta()});
  }

  /// `to` may share the memory of `from`.
  void drop_out(Dropped const& dropped, Matrix<T> const& from, Matrix<T>& to) const {
    run(DropOut<T>{dropped, from.data(), nullptr, to.data(), from.count()});
  }
  void add_dropped_out(Dropped const& dropped, Matrix<T> const& residual, Matrix<T>& y) const {
    run(DropOut<T>{dropped, y.data(), residual.data(), y.data(), y.count()});
  }

  /// The mean loss; valid once the stream has reached it.
  [[nodiscard]] zeroth::DeviceLoss cross_entropy(Matrix<float> const& logits, Batch const& batch,
                                                 SoftmaxTape<Gpu>& tape) const {
    run(CrossEntropy{rows_of(logits), batch.targets, tape.largest.data(), tape.sums.data(), tape.losses.data()});
    run(MeanLoss{tape.losses.data(), nullptr, logits.rows(), batch.loss});
    return {batch.loss};
  }
  /// The rows of `dlogits` may begin where those of `logits` do.
  void cross_entropy_backward(Matrix<float> const& logits, Batch const& batch, SoftmaxTape<Gpu> const& tape,
                              Seed const& seed, InRowsOf<T> const& dlogits) const {
    run(CrossEntropyBackward<T>{rows_of(logits), batch.targets, 0, tape.largest.data(), tape.sums.data(), seed,
                                rows_of(dlogits)});
  }
  /// The same if tensor ranks divide the vocabulary: they reduce the largest logits first, and then the sums.
  [[nodiscard]] zeroth::DeviceLoss cross_entropy_of_part(Matrix<float> const& logits, Batch const& batch,
                                                         zeroth::VocabularyPart const& words,
                                                         SoftmaxTape<Gpu>& tape) const {
    tape.resize(logits.rows());
    auto const of_words = columns_of(logits, words);
    run(LargestOfPart{of_words, tape.largest.data()});
    std::array const largest{over_ranks(tape.largest, zeroth::Reduce::maximum)};
    this->tensor().start(largest, "cross-entropy's largest logits").wait();
    run(SumsOfPart{of_words, batch.targets, static_cast<std::int32_t>(words.first), tape.largest.data(),
                   tape.sums.data(), tape.losses.data()});
    std::array const sums{over_ranks(tape.sums, zeroth::Reduce::sum), over_ranks(tape.losses, zeroth::Reduce::sum)};
    this->tensor().start(sums, "cross-entropy's sums").wait();
    run(MeanLoss{tape.losses.data(), tape.sums.data(), logits.rows(), batch.loss});
    return {batch.loss};
  }
  void cross_entropy_backward_of_part(Matrix<float> const& logits, Batch const& batch,
                                      zeroth::VocabularyPart const& words, SoftmaxTape<Gpu> const& tape,
                                      Seed const& seed, InRowsOf<T> const& dlogits) const {
    run(CrossEntropyBackward<T>{columns_of(logits, words), batch.targets, static_cast<std::int32_t>(words.first),
                                tape.largest.data(), tape.sums.data(), seed, rows_of(dlogits)});
  }

 private:
  /// Calls `f(kernels, reads)` with the kernels for these heads and their lists.
  template <class F>
  void with_attention(AttentionHeads const& heads, F const& f) {
    if (heads.key_blocks == nullptr) {
      with_attention_kernels<T, ReadsAll>(heads.width, [&](auto kernels) { f(kernels, AttentionReads<ReadsAll>{}); });
      return;
    }
    with_attention_kernels<T, ReadsListed>(heads.width, [&]<class Kernels>(Kernels kernels) {
      if (!lists_) {
        lists_.emplace(kernels, heads, stream_);
      }
      f(kernels, lists_->reads(heads));
    });
  }
  template <class Body>
  void run(Body const& body) const {
    expect(launch(stream_, body, body.work()), "launch of a kernel");
  }
  /// Memory for sums over chunks of rows; valid until the next use.
  [[nodiscard]] float* partial_sums(std::int64_t count) {
    if (count > partial_sums_.count()) {
      partial_sums_.resize(1, count);
    }
    return partial_sums_.data();
  }
  /// Adds sums over chunks of rows, with a stride of `stride` floats, to a gradient.
  template <class Gradient>
  void add_chunks(float const* sums, std::int64_t stride, std::int64_t chunks, Gradient const& gradient) const {
    using G = std::remove_pointer_t<decltype(gradient.data())>;
    run(FoldChunks<G>{sums, stride, chunks, gradient.shape()[0], gradient.data(), gradient.beta()});
  }
  template <class View>
  [[nodiscard]] static LayerNormRows<T> norm_rows(Matrix<T> const& x, View const& weight, View const& bias,
                                                  Matrix<T>& y) {
    return {x.data(), weight.data(), bias.data(), x.rows(), x.cols(), y.data()};
  }
  /// The logits without padding columns.
  [[nodiscard]] static StridedRows<float const> columns_of(Matrix<float> const& logits,
                                                           zeroth::VocabularyPart const& words) {
    return {logits.data(), logits.rows(), words.count, logits.stride()};
  }
  /// An all-reduce in place over tensor ranks.
  [[nodiscard]] static zeroth::comm::Collective over_ranks(Matrix<float>& values, zeroth::Reduce reduce) {
    return {.operation = zeroth::comm::Operation::all_reduce,
            .input = values.data(),
            .output = values.data(),
            .count = values.count(),
            .dtype = zeroth::Dtype::fp32,
            .reduce = reduce};
  }
  [[nodiscard]] static CudnnShape cudnn_shape(AttentionHeads const& heads, Matrix<T> const& qkv) {
    return {zeroth::dtype_of<T>, qkv.rows() / heads.context, heads};
  }
  [[nodiscard]] static Heads kernel_heads(AttentionHeads const& heads, std::int64_t tokens) {
    return {static_cast<int>(tokens / heads.context), static_cast<int>(heads.context), static_cast<int>(heads.count),
            static_cast<int>(heads.width)};
  }

  cudaStream_t stream_;
  Matmul matmul_;
  std::unique_ptr<CudnnAttention> cudnn_;
  Matrix<float> partial_sums_, along_;
  std::optional<AttentionLists> lists_;  // made at the first use of a layout
};

}  // namespace gpt::gpu
