// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_orthogonal.hpp"

#include <algorithm>
#include <utility>

#include "device/cuda_launch.hpp"
#include "device/gpu_matrices.hpp"

namespace zeroth::device {
namespace {

/// Divides args.matrix by its norm, into `x`.
cudaError_t normalise(cudaStream_t stream, optim::OrthogonalArgs const& args, GpuMatrixWorkspace const& at, bf16* x) {
  auto const count = args.rows * args.columns;
  auto* const block_sums = reinterpret_cast<float*>(args.workspace + at.block_sums);
  auto* const squares = reinterpret_cast<optim::ExactSum*>(args.workspace + at.squares);
  auto result = cuda::reduce_epilogue(stream, {.source = args.matrix,
                                               .source_dtype = Dtype::bf16,
                                               .destination = args.matrix,
                                               .destination_dtype = Dtype::bf16,
                                               .count = count,
                                               .block_sums = block_sums,
                                               .sums_count = count});
  if (result == cudaSuccess) {
    result = cuda::collect(stream, block_sums, sum_blocks(count), squares);
  }
  return result == cudaSuccess ? cuda::normalise(stream, {args.matrix, squares, x, count, args.scalars}) : result;
}

}  // namespace

cudaError_t orthogonalise(cudaStream_t stream, optim::OrthogonalArgs const& args, CudaProducts& products) {
  auto const n = std::min(args.rows, args.columns), m = std::max(args.rows, args.columns);
  bool const tall = args.rows > args.columns;
  auto const at = gpu_matrix_workspace(args.rows, args.columns);
  auto const piece = [&](std::int64_t offset) { return reinterpret_cast<bf16*>(args.workspace + offset); };
  auto *const gram = piece(at.gram), *const factor = piece(at.factor);
  // Steps alternate between two matrices. The last one writes args.matrix.
  auto *x = args.matrix, *next = piece(at.next);
  if (args.rule->steps % 2 != 0) {
    std::swap(x, next);
  }
  if (auto const result = normalise(stream, args, at, x); result != cudaSuccess) {
    return result;
  }
  auto const multiply = [&](CudaProduct const& product) {
    products.enqueue(stream, product, args.workspace + at.products);
  };
  float const result_factor = optim::adjustment(*args.rule, args.rows, args.columns);
  auto const [of_x, of_x3, of_x5] = optim::newton_schulz;
  for (int step = 1; step <= args.rule->steps; ++step) {
    // cuBLASLt reads our rows as columns: X is n x m if the matrix is tall, otherwise its transpose.
    // gram = x x^T, factor = of_x3 gram + of_x5 gram gram, next = of_x x + factor x, or the transpose of these
    multiply({x, x, gram, gram, !tall, tall, n, m, n, 1, 0});
    multiply({gram, gram, gram, factor, false, false, n, n, n, of_x5, of_x3});
    float const scale = step == args.rule->steps ? result_factor : 1.0F;
    if (tall) {
      multiply({factor, x, x, next, false, false, n, n, m, scale, scale * of_x});
    } else {
      multiply({x, factor, x, next, false, false, m, n, n, scale, scale * of_x});
    }
    std::swap(x, next);
  }
  return cudaSuccess;
}

}  // namespace zeroth::device
