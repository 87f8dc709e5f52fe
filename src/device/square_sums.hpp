// SPDX-License-Identifier: Apache-2.0
/// The sum of squares of a block on a CPU, in the order that element_arithmetic.hpp defines.
#pragma once
#include <cstdint>

#include "core/isa.hpp"
#include "device/element_arithmetic.hpp"
#include "device/kernels.hpp"

namespace zeroth::device {

static_assert(sum_block_count % square_lanes == 0);

/// The sum of the squares of `count` elements, at most sum_block_count.
template <class T>
[[nodiscard]] ZEROTH_INLINE float sum_of_squares(T const* block, std::int64_t count) {
  float sum[square_lanes] = {};
  std::int64_t i = 0;
  for (; i + square_lanes <= count; i += square_lanes) {
    for (std::int64_t lane = 0; lane < square_lanes; ++lane) {
      sum[lane] = add_square(sum[lane], to_float(block[i + lane]));
    }
  }
  for (std::int64_t lane = 0; i + lane < count; ++lane) {
    sum[lane] = add_square(sum[lane], to_float(block[i + lane]));
  }
  return fold_lanes(sum);
}

}  // namespace zeroth::device
