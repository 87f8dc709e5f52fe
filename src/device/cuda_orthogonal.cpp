// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_orthogonal.hpp"

#include <algorithm>
#include <utility>

#include "device/cuda_launch.hpp"
#include "device/gpu_matrices.hpp"
#include "optim/gram_iteration.hpp"

namespace zeroth::device {
namespace {

/// An iteration on X, n x m with n <= m, enqueued on a stream. cuBLASLt reads our rows as columns: what it sees is X if
/// the matrix is tall, and otherwise the transpose. The other matrices are symmetric.
class CudaIteration {
 public:
  CudaIteration(cudaStream_t stream, optim::OrthogonalArgs const& args, CudaProducts& products)
      : stream_{stream},
        args_{args},
        products_{products},
        at_{gpu_matrix_workspace(args.rule->method, args.rows, args.columns)},
        tall_{args.rows > args.columns},
        n_{std::min(args.rows, args.columns)},
        m_{std::max(args.rows, args.columns)},
        x_{args.matrix},
        next_{piece(at_.next)},
        gram_{piece(at_.gram)},
        factor_{piece(at_.factor)},
        polynomial_{piece(at_.polynomial)},
        spare_{piece(at_.spare)} {}

  [[nodiscard]] cudaError_t run() {
    return args_.rule->method == optim::NewtonSchulzMethod::gram ? run_in_fp16() : run_in_bf16();
  }

  // for iterate_on_gram()

  void gram() { multiply({x_, x_, gram_, gram_, !tall_, tall_, n_, m_, n_, 1, 0}); }
  void polynomial() { multiply_squares(gram_, gram_, gram_, polynomial_, of_x5_, of_x3_); }
  void begin() { multiply_squares(polynomial_, identity(), identity(), factor_, 1, of_x_); }
  void extend() {
    multiply_squares(polynomial_, factor_, factor_, spare_, 1, of_x_);
    std::swap(factor_, spare_);
  }
  void advance() {
    multiply_squares(polynomial_, gram_, gram_, spare_, 1, of_x_);
    multiply_squares(polynomial_, spare_, spare_, gram_, 1, of_x_);
  }
  void apply(bool last) { apply(last ? result_factor() : 1, 0); }

 private:
  cudaStream_t stream_;
  optim::OrthogonalArgs const& args_;
  CudaProducts& products_;
  GpuMatrixWorkspace at_;
  bool tall_;
  std::int64_t n_, m_;
  void *x_, *next_;            ///< n x m
  void *gram_, *factor_;       ///< n x n
  void *polynomial_, *spare_;  ///< n x n; only with the method `gram`
  Dtype dtype_ = Dtype::bf16;  ///< The dtype of all matrices.
  float of_x_ = optim::newton_schulz.of_x, of_x3_ = optim::newton_schulz.of_x3, of_x5_ = optim::newton_schulz.of_x5;

  [[nodiscard]] void* piece(std::int64_t offset) const noexcept { return args_.workspace + offset; }
  [[nodiscard]] void* identity() const noexcept { return piece(at_.identity); }
  [[nodiscard]] float result_factor() const noexcept {
    return optim::adjustment(*args_.rule, args_.rows, args_.columns);
  }

  /// Multiplications of X alternate between two matrices, of which the last one writes args.matrix.
  cudaError_t run_in_bf16() {
    if (args_.rule->steps % 2 != 0) {
      std::swap(x_, next_);
    }
    auto const result = normalise(x_);
    if (result == cudaSuccess) {
      iterate();
    }
    return result;
  }

  /// Here the last one must not write args.matrix, into which its result is rounded.
  cudaError_t run_in_fp16() {
    dtype_ = Dtype::fp16;
    bool const by_gram = optim::by_gram(args_.rule->method, args_.rows, args_.columns);
    if ((by_gram ? optim::GramProducts::of(args_.rule->steps).applied : args_.rule->steps) % 2 == 0) {
      std::swap(x_, next_);
    }
    auto result = normalise(next_);
    result = result == cudaSuccess ? convert(next_, Dtype::bf16, x_, Dtype::fp16) : result;
    result = result == cudaSuccess && by_gram ? write_identity() : result;
    if (result == cudaSuccess) {
      by_gram ? optim::iterate_on_gram(args_.rule->steps, *this) : iterate();
      result = convert(x_, Dtype::fp16, args_.matrix, Dtype::bf16);
    }
    return result;
  }

  void iterate() {
    for (int step = 1; step <= args_.rule->steps; ++step) {
      // gram = x x^T, factor = of_x3 gram + of_x5 gram gram, next = of_x x + factor x, or the transpose of these
      gram();
      multiply_squares(gram_, gram_, gram_, factor_, of_x5_, of_x3_);
      float const scale = step == args_.rule->steps ? result_factor() : 1.0F;
      apply(scale, scale * of_x_);
    }
  }

  /// Divides args.matrix by its norm, into `x`, in bf16.
  cudaError_t normalise(void* x) {
    auto const count = args_.rows * args_.columns;
    auto* const block_sums = reinterpret_cast<float*>(args_.workspace + at_.block_sums);
    auto* const squares = reinterpret_cast<optim::ExactSum*>(args_.workspace + at_.squares);
    auto result = cuda::reduce_epilogue(stream_, {.source = args_.matrix,
                                                  .source_dtype = Dtype::bf16,
                                                  .destination = args_.matrix,
                                                  .destination_dtype = Dtype::bf16,
                                                  .count = count,
                                                  .block_sums = block_sums,
                                                  .sums_count = count});
    if (result == cudaSuccess) {
      result = cuda::collect(stream_, block_sums, sum_blocks(count), squares);
    }
    return result == cudaSuccess
               ? cuda::normalise(stream_, {args_.matrix, squares, static_cast<bf16*>(x), count, args_.scalars})
               : result;
  }

  /// `to` must not be `from`.
  cudaError_t convert(void const* from, Dtype from_dtype, void* to, Dtype to_dtype) {
    return cuda::reduce_epilogue(stream_, {.source = from,
                                           .source_dtype = from_dtype,
                                           .destination = to,
                                           .destination_dtype = to_dtype,
                                           .count = args_.rows * args_.columns});
  }

  /// The upper byte of 1 in fp16 is 0x3c, and the lower one is 0.
  cudaError_t write_identity() {
    auto const side = static_cast<std::size_t>(n_);
    auto const result = cudaMemsetAsync(identity(), 0, side * side * sizeof(fp16), stream_);
    return result == cudaSuccess ? cudaMemset2DAsync(static_cast<std::byte*>(identity()) + 1, (side + 1) * sizeof(fp16),
                                                     0x3c, 1, side, stream_)
                                 : result;
  }

  void multiply(CudaProduct product) {
    product.dtype = dtype_;
    products_.enqueue(stream_, product, args_.workspace + at_.products);
  }
  /// result = factor left right + addend_factor addend
  void multiply_squares(void const* left, void const* right, void const* addend, void* result, float factor,
                        float addend_factor) {
    multiply({left, right, addend, result, false, false, n_, n_, n_, factor, addend_factor});
  }
  /// x <- scale factor x + of_x x
  void apply(float scale, float of_x) {
    if (tall_) {
      multiply({factor_, x_, x_, next_, false, false, n_, n_, m_, scale, of_x});
    } else {
      multiply({x_, factor_, x_, next_, false, false, m_, n_, n_, scale, of_x});
    }
    std::swap(x_, next_);
  }
};

}  // namespace

cudaError_t orthogonalise(cudaStream_t stream, optim::OrthogonalArgs const& args, CudaProducts& products) {
  return CudaIteration{stream, args, products}.run();
}

}  // namespace zeroth::device
