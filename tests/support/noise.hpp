// SPDX-License-Identifier: Apache-2.0
/// Numbers that look random, the same on hosts and GPUs.
#pragma once
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth::testing {

/// A number in [-1, 1] from two integers.
ZEROTH_HOST_DEVICE inline float noise(std::int64_t a, std::int64_t b) {
  auto x =
      static_cast<std::uint64_t>(a) * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(b) * 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 31U;
  x *= 0x94D049BB133111EBULL;
  x ^= x >> 29U;
  return static_cast<float>(static_cast<std::int32_t>(x >> 32U)) * 0x1p-31F;
}

}  // namespace zeroth::testing
