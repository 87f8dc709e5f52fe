// SPDX-License-Identifier: Apache-2.0
/// Products of 16-bit matrices, with the same bits on every instruction set.
#pragma once
#include <cstdint>

#include "zeroth/core/dtype.hpp"
#include "zeroth/optim/matrix_product.hpp"

namespace zeroth::optim {

/// result = product_factor * left * right + addend_factor * addend. Matrices are row-major, in bf16 or fp16.
template <class T>
struct ScaledProduct {
  T const* left;   ///< [rows, inner]
  T const* right;  ///< [inner, columns], or [columns, inner]
  bool transposes_right;
  T const* addend;  ///< [rows, columns], or null for 0
  T* result;        ///< [rows, columns], apart from the operands
  std::int64_t rows, inner, columns;
  float product_factor, addend_factor;
  bool symmetric;  ///< Whether the result is known to be symmetric: then only its lower half is computed.
};

/// The fp32 numbers that multiply() needs as scratch for a product of `rows` rows and `inner` terms: 32 for each term,
/// and the left operand, of which at most 2^20 elements or 12 rows at once.
[[nodiscard]] std::int64_t panel_count(std::int64_t rows, std::int64_t inner) noexcept;

/// Each sum adds its terms in order, in fp32, and is rounded once. Operands below 2^-60, which only bf16 has, count as
/// 0: then no product underflows, all are exact in fp32, and a fused multiply-add has the bits of an addition. `panels`
/// is aligned to 64 bytes.
template <class T>
void multiply(ScaledProduct<T> const& product, float* panels) noexcept;

/// The same product by a program's own function. `sums`: [rows, columns].
void multiply(ScaledProduct<bf16> const& product, Multiply const& by, float* sums);

}  // namespace zeroth::optim
