// SPDX-License-Identifier: Apache-2.0
/// Products of matrices that a program may compute for the library.
#pragma once
#include <cstdint>
#include <functional>

#include "zeroth/core/dtype.hpp"

namespace zeroth::optim {

/// A product of bf16 matrices: sums = left * right. Matrices are row-major and do not overlap.
struct MatrixProduct {
  bf16 const* left = nullptr;     ///< [rows, inner]
  bf16 const* right = nullptr;    ///< [inner, columns]; with transposes_right [columns, inner]
  bool transposes_right = false;  ///< Multiply by the transposed matrix.
  float* sums = nullptr;          ///< [rows, columns]; written
  std::int64_t rows = 0;          ///< Rows of the sums. 1 or more, as are `inner` and `columns`.
  std::int64_t inner = 0;         ///< Terms of each sum.
  std::int64_t columns = 0;       ///< Columns of the sums.
  bool symmetric = false;         ///< Only the sums in the lower half, column <= row, are read.
};

/// A program's own function for such products, such as one of its matrix library. Sums should be fp32. The same
/// operands must give the same bits on all ranks and at all times; then all stages are bitwise equal.
using Multiply = std::function<void(MatrixProduct const&)>;

}  // namespace zeroth::optim
