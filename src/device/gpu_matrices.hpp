// SPDX-License-Identifier: Apache-2.0
/// The workspace of Kernels::orthogonalise() on a GPU. Pure arithmetic, so that plans need no GPU.
#pragma once
#include <cstdint>

#include "device/kernels.hpp"

namespace zeroth::device {

/// The workspace of cuBLASLt, of the size that NVIDIA recommends for Hopper and Blackwell.
inline constexpr std::int64_t cublas_lt_bytes = std::int64_t{32} << 20;

/// Offsets of the pieces of a workspace in bytes, multiples of 256.
struct GpuMatrixWorkspace {
  std::int64_t next = 0;        ///< 16 bits, as large as the matrix
  std::int64_t gram = 0;        ///< 16 bits, the square of the smaller extent
  std::int64_t factor = 0;      ///< The same.
  std::int64_t polynomial = 0;  ///< The same; with the method `gram` only, as `spare` and `identity`.
  std::int64_t spare = 0;       ///< The same.
  std::int64_t identity = 0;    ///< The same.
  std::int64_t products = 0;    ///< [cublas_lt_bytes]
  std::int64_t block_sums = 0;  ///< fp32, sum_blocks() of the matrix
  std::int64_t squares = 0;     ///< optim::ExactSum
  std::int64_t bytes = 0;       ///< Size of the workspace.
};

[[nodiscard]] GpuMatrixWorkspace gpu_matrix_workspace(optim::NewtonSchulzMethod method, std::int64_t rows,
                                                      std::int64_t columns) noexcept;

/// The additions and multiplications of one call for n x m, n <= m: steps * (4 n^2 m + 2 n^3), or with the method
/// `gram` and 5 steps 8 n^2 m + 32 n^3. All of a symmetric result is computed.
[[nodiscard]] double gpu_matrix_operations(optim::Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept;

}  // namespace zeroth::device
