// SPDX-License-Identifier: Apache-2.0
/// Host memory for activations.
#pragma once
#include <cstdint>
#include <cstdlib>

#include "matrix.hpp"

namespace gpt::cpu {

struct HostMemory {
  static constexpr std::int64_t aligned_row_bytes = 1;  ///< oneDNN's fast products accept only rows without gaps.
  /// Returns memory aligned to 64 bytes: Eigen's order of summation depends on it. Throws SystemError, which names the
  /// size, if out of memory.
  [[nodiscard]] static void* take(std::int64_t bytes);
  static void give_back(void* data) noexcept { std::free(data); }  // null is allowed
};
template <class T>
using Matrix = gpt::Matrix<T, HostMemory>;

}  // namespace gpt::cpu
