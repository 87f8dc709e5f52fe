// SPDX-License-Identifier: Apache-2.0
/// What Kernels::orthogonalise() needs on a GPU. Pure arithmetic: a machine without one plans with it.
#pragma once
#include <cstdint>

#include "device/kernels.hpp"

namespace zeroth::device {

/// The workspace of cuBLASLt, of the size that NVIDIA recommends for Hopper and Blackwell.
inline constexpr std::int64_t cublas_lt_bytes = std::int64_t{32} << 20;

/// Where the pieces of a workspace begin, in bytes. All are multiples of 256.
struct GpuMatrixWorkspace {
  std::int64_t next = 0;        ///< bf16, as large as the matrix
  std::int64_t gram = 0;        ///< bf16, the square of the smaller extent
  std::int64_t factor = 0;      ///< The same.
  std::int64_t products = 0;    ///< [cublas_lt_bytes]
  std::int64_t block_sums = 0;  ///< fp32, sum_blocks() of the matrix
  std::int64_t squares = 0;     ///< optim::ExactSum
  std::int64_t bytes = 0;       ///< Of all.
};

[[nodiscard]] constexpr GpuMatrixWorkspace gpu_matrix_workspace(std::int64_t rows, std::int64_t columns) noexcept {
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
  at.products = take(cublas_lt_bytes);
  at.block_sums = take(sum_blocks(count) * bytes_of(Dtype::fp32));
  at.squares = take(static_cast<std::int64_t>(sizeof(optim::ExactSum)));
  return at;
}

/// The additions and multiplications of one call for n x m, n <= m: steps * (4 n^2 m + 2 n^3). All of a symmetric
/// result is computed.
[[nodiscard]] constexpr double gpu_matrix_operations(optim::Muon const& rule, std::int64_t rows,
                                                     std::int64_t columns) noexcept {
  auto const n = static_cast<double>(rows < columns ? rows : columns);
  auto const m = static_cast<double>(rows < columns ? columns : rows);
  return rule.steps * (4 * n * n * m + 2 * n * n * n);
}

}  // namespace zeroth::device
