// SPDX-License-Identifier: Apache-2.0
/// The threads of a warp, and sets of them.
#pragma once
#include <bit>
#include <cstdint>

namespace zeroth::testing::ptx {

inline constexpr int warp_lanes = 32;

/// Bit i is lane i.
using Lanes = std::uint32_t;
inline constexpr Lanes all_lanes = 0xffffffffU;

[[nodiscard]] constexpr bool contains(Lanes lanes, int lane) { return (lanes >> lane & 1U) != 0; }

template <class F>
void for_each_lane(Lanes lanes, F const& function) {
  for (; lanes != 0; lanes &= lanes - 1) {
    function(std::countr_zero(lanes));
  }
}

}  // namespace zeroth::testing::ptx
