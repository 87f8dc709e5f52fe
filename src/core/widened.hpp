// SPDX-License-Identifier: Apache-2.0
/// Elements as fp32 numbers, block by block: loops over several element sizes would mix vectors of different lengths.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/isa.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// The values in fp32: in place, or widened to `buffer`, which has room for `count`.
template <class T>
[[nodiscard]] ZEROTH_INLINE auto widened(T* values, float* buffer, std::int64_t count) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
    return values;
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      buffer[i] = to_float(values[i]);
    }
    return buffer;
  }
}

}  // namespace zeroth
