// SPDX-License-Identifier: Apache-2.0
/// The two parts of Muon's step that come before the update of elements: a direction for each element, and the
/// orthogonal matrix nearest to it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

/// The arguments of one call of direction().
struct DirectionArgs {
  void const* gradient = nullptr;        ///< [count]
  Dtype gradient_dtype = Dtype::fp32;    ///< fp32, bf16 or fp16
  float* momentum = nullptr;             ///< [count]; updated
  bf16* direction = nullptr;             ///< [count]; written
  std::int64_t count = 0;                ///< Elements of each array.
  Muon const* rule = nullptr;            ///< Momentum and nesterov.
  StepScalars const* scalars = nullptr;  ///< Read when the kernel runs. If `skip` is set, nothing is written.
};

/// Moves the momentum towards the gradient, and rounds the direction of the step to bf16: the momentum, or with
/// nesterov a mean of gradient and momentum. Element-wise, so it does not depend on how a matrix is divided.
ZEROTH_EXPORT void direction(DirectionArgs const& args);

/// The coefficients of x, x^3 and x^5 in one step of the iteration (Jordan et al. 2024).
struct NewtonSchulz {
  float of_x = 3.4445F;    ///< Coefficient of x.
  float of_x3 = -4.7750F;  ///< Coefficient of x^3.
  float of_x5 = 2.0315F;   ///< Coefficient of x^5.
};
/// Those that the library uses.
inline constexpr NewtonSchulz newton_schulz{};

/// The arguments of one call of orthogonalise().
struct OrthogonalArgs {
  bf16* matrix = nullptr;                ///< [rows, columns]; replaced by the result
  std::int64_t rows = 0;                 ///< 1 or more.
  std::int64_t columns = 0;              ///< 1 or more.
  std::byte* workspace = nullptr;        ///< [orthogonal_workspace_bytes()], aligned to 64 bytes
  Muon const* rule = nullptr;            ///< Number of steps, and the factor of the result.
  StepScalars const* scalars = nullptr;  ///< Read when the kernel runs. If `skip` is set, nothing is written.
};

/// Replaces a matrix by an almost orthogonal one with the same singular vectors, times adjustment(): iteration of
/// Newton and Schulz with a polynomial of degree 5 (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural
/// networks"). Its products have bf16 operands and fp32 sums. With the method `gram` they are fp16, and most products
/// are of the smaller square, x x^T, unless the matrix is square itself: the same polynomial, with fewer operations.
/// The library computes each sum in order of its terms, so the bits are the same with every instruction set. Throws
/// what Muon::multiply throws. Costs orthogonal_operations().
ZEROTH_EXPORT void orthogonalise(OrthogonalArgs const& args);

/// The bytes of memory that orthogonalise() needs: 4 per element of the matrix, and 4 per element of its smaller
/// square, or 8 with the method `gram` unless the matrix is square; and 128 for each element of the longer side, and up
/// to 4 MiB, or 12 rows in fp32. Muon::multiply needs a matrix in fp32 instead.
[[nodiscard]] ZEROTH_EXPORT std::int64_t orthogonal_workspace_bytes(Muon const& rule, std::int64_t rows,
                                                                    std::int64_t columns) noexcept;

/// The number of additions and multiplications of orthogonalise(): steps * (3 n^2 m + n^3) for n x m, n <= m, since the
/// lower halves of two of the three products are computed. With the method `gram` and 5 steps 6 n^2 m + 14 n^3.
[[nodiscard]] ZEROTH_EXPORT double orthogonal_operations(Muon const& rule, std::int64_t rows,
                                                         std::int64_t columns) noexcept;

/// The factor of the result, which makes the sizes of steps comparable between shapes. With AdjustRate::original
/// sqrt(max(1, rows / columns)), with match_rms_adamw 0.2 sqrt(max(rows, columns)).
[[nodiscard]] ZEROTH_EXPORT float adjustment(Muon const& rule, std::int64_t rows, std::int64_t columns) noexcept;

}  // namespace zeroth::optim
