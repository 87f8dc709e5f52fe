// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_matrices.hpp"

#include "optim/gram_iteration.hpp"

namespace zeroth::device {

GpuMatrixWorkspace gpu_matrix_workspace(optim::NewtonSchulzMethod method, std::int64_t rows,
                                        std::int64_t columns) noexcept {
  constexpr std::int64_t alignment_bytes = 256;
  auto const count = rows * columns, side = rows < columns ? rows : columns;
  GpuMatrixWorkspace at;
  auto const take = [&](std::int64_t bytes) {
    auto const begin = at.bytes;
    at.bytes += (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    return begin;
  };
  at.next = take(count * bytes_of(Dtype::bf16));
  at.gram = take(side * side * bytes_of(Dtype::bf16));
  at.factor = take(side * side * bytes_of(Dtype::bf16));
  if (optim::by_gram(method, rows, columns)) {
    at.polynomial = take(side * side * bytes_of(Dtype::fp16));
    at.spare = take(side * side * bytes_of(Dtype::fp16));
    at.identity = take(side * side * bytes_of(Dtype::fp16));
  }
  at.products = take(cublas_lt_bytes);
  at.block_sums = take(sum_blocks(count) * bytes_of(Dtype::fp32));
  at.squares = take(static_cast<std::int64_t>(sizeof(optim::ExactSum)));
  return at;
}

double gpu_matrix_operations(optim::Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept {
  auto const n = static_cast<double>(rows < columns ? rows : columns);
  auto const m = static_cast<double>(rows < columns ? columns : rows);
  if (!optim::by_gram(rule.method, rows, columns)) {
    return rule.steps * (4 * n * n * m + 2 * n * n * n);
  }
  auto const products = optim::GramProducts::of(rule.steps);
  return 2 * (products.of_x + products.applied) * n * n * m + 2 * (products.of_square + products.begun) * n * n * n;
}

}  // namespace zeroth::device
