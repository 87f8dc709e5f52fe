// SPDX-License-Identifier: Apache-2.0
/// The Device for GPUs: runs the layers' math as kernels on a stream.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "attention.hpp"
#include "embedding.hpp"
#include "gpu/attention_kernels.hpp"
#include "gpu/batch.hpp"
#include "gpu/kernels/columns.hpp"
#include "gpu/kernels/cross_entropy.hpp"
#include "gpu/kernels/dropout.hpp"
#include "gpu/kernels/embedding.hpp"
#include "gpu/kernels/layer_norm.hpp"
#include "gpu/launch.hpp"
#include "gpu/matmul.hpp"
#include "gpu/memory.hpp"
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
class Gpu {
 public:
  using Element = T;
  using Wide = float;
  template <class V>
  using Matrix = gpu::Matrix<V>;
  using Batch = DeviceBatch;
  static constexpr bool keeps_hidden = true;  ///< Recomputing it would be one more pass over the two widest matrices.
  static constexpr bool divides_layers = false;

  Gpu(cudaStream_t stream, MatmulOptions const& options) : stream_{stream}, matmul_{stream, options} {}

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

  void attend(AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<float>& log_sums, Matrix<T>& y) const {
    with_attention_kernels<T>(heads.width, [&]<class Kernels>(Kernels) {
      run(typename Kernels::Forward{qkv.data(), kernel_heads(heads, qkv.rows()), heads.scale<float>(), y.data(),
                                    log_sums.data()});
    });
  }
  void attend_backward(AttentionHeads const& heads, Matrix<T> const& qkv, Matrix<T> const& y,
                       Matrix<float> const& log_sums, Matrix<T> const& dy, Matrix<T>& dqkv) {
    along_.resize(qkv.rows(), heads.count);
    AttentionGiven<T> const given{
        qkv.data(), dy.data(), log_sums.data(), along_.data(), kernel_heads(heads, qkv.rows()), heads.scale<float>()};
    with_attention_kernels<T>(heads.width, [&]<class Kernels>(Kernels) {
      if constexpr (Kernels::on_tensor_cores) {
        run(typename Kernels::BackwardQueries{given, y.data(), along_.data(), dqkv.data()});
      } else {
        run(AttentionAlong<T>{y.data(), dy.data(), qkv.rows() * heads.count, heads.width, along_.data()});
        run(typename Kernels::BackwardQueries{given, dqkv.data()});
      }
      run(typename Kernels::BackwardKeys{given, dqkv.data()});
    });
  }

  template <class View>
  void embed(Batch const& batch, View const& tokens, View const& positions, Matrix<T>& x) const {
    run(Embed<T>{batch.inputs, tokens.data(), positions.data(), x.rows(), x.cols(), positions.extent(0), x.data()});
  }
  template <class Gradient>
  void embed_backward(Batch const& batch, Matrix<T> const& dx, Gradient const& tokens,
                      Gradient const& positions) const {
    using G = std::remove_pointer_t<decltype(tokens.data())>;
    run(EmbedTokensBackward<T, G>{dx.data(), batch.order, batch.first, tokens.shape()[0], dx.cols(), tokens.data(),
                                  tokens.beta()});
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
    run(MeanLoss{tape.losses.data(), logits.rows(), batch.loss});
    return {batch.loss};
  }
  /// `dlogits` may share the memory of `logits`.
  void cross_entropy_backward(Matrix<float> const& logits, Batch const& batch, SoftmaxTape<Gpu> const& tape, float each,
                              Matrix<T>& dlogits) const {
    run(CrossEntropyBackward<T>{rows_of(logits), batch.targets, tape.largest.data(), tape.sums.data(), each,
                                rows_of(dlogits)});
  }

 private:
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
  [[nodiscard]] static Heads kernel_heads(AttentionHeads const& heads, std::int64_t tokens) {
    return {static_cast<int>(tokens / heads.context), static_cast<int>(heads.context), static_cast<int>(heads.count),
            static_cast<int>(heads.width)};
  }

  cudaStream_t stream_;
  Matmul matmul_;
  Matrix<float> partial_sums_, along_;
};

}  // namespace gpt::gpu
