// SPDX-License-Identifier: Apache-2.0
/// A rank's memory for the matrices of a step.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shard/matrix_homes.hpp"
#include "shard/memory.hpp"

namespace zeroth::shard {

/// Addresses in the scratch of MatrixDirections: directions of this rank's elements, matrices of its home, the matrix
/// whose parts are joined, and the workspace. Directions and matrices are bf16.
class MatrixMemory {
 public:
  static constexpr std::int64_t element_bytes = bytes_of(Dtype::bf16);

  MatrixMemory(Memory const& memory, MatrixHomes const& homes) noexcept
      : memory_{&memory},
        homes_{&homes},
        staged_{memory.directions()},
        home_{staged_ + homes.staged_count * element_bytes},
        joined_{home_ + homes.home_count * element_bytes},
        workspace_{joined_ + homes.joined_count * element_bytes} {}

  [[nodiscard]] static std::int64_t bytes(MatrixHomes const& homes) noexcept {
    return (homes.staged_count + homes.home_count + homes.joined_count) * element_bytes + homes.workspace_bytes;
  }

  /// The directions of `flat`, from the optimizer's first element on.
  [[nodiscard]] std::byte* staged(FlatId flat) const noexcept { return staged_ + homes_->staged[flat] * element_bytes; }
  /// The direction of `element` of the flat unit, if this rank's optimizer has it.
  [[nodiscard]] std::byte* staged(HomedMatrix const& matrix, std::int64_t element) const noexcept {
    return staged(matrix.flat) + (element - memory_->optimized(matrix.flat).begin) * element_bytes;
  }
  /// In the matrix's home: the part of the tensor rank `index`.
  [[nodiscard]] std::byte* part(HomedMatrix const& matrix, int index) const noexcept {
    auto const tensor = memory_->request().tensor.index;
    if (homes_->whole && (matrix.parts == 1 || index == tensor)) {
      return staged(matrix, matrix.elements.begin);
    }
    bool const joins = matrix.parts > 1 && matrix.tensor_home == tensor;
    return home_ + (matrix.in_home + (joins ? index * matrix.stride() : 0)) * element_bytes;
  }
  /// This tensor rank's part.
  [[nodiscard]] std::byte* own_part(HomedMatrix const& matrix) const noexcept {
    return part(matrix, memory_->request().tensor.index);
  }
  [[nodiscard]] std::byte* joined() const noexcept { return joined_; }
  [[nodiscard]] std::byte* workspace() const noexcept { return workspace_; }

 private:
  Memory const* memory_;
  MatrixHomes const* homes_;
  std::byte *staged_, *home_, *joined_, *workspace_;
};

}  // namespace zeroth::shard
