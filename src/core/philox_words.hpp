// SPDX-License-Identifier: Apache-2.0
/// The random words of many counters at once.
#pragma once
#include <cstdint>

#include "zeroth/core/philox.hpp"

namespace zeroth {

/// Counters that differ in a number alone, a group's.
struct PhiloxSequence {
  PhiloxKey key;
  std::uint32_t above;  ///< What word 1 of counters has beside the group's upper half: no bit of both is set.
  std::uint32_t word_2, word_3;

  [[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE constexpr PhiloxWords operator[](
      std::uint64_t group) const noexcept {
    return philox(
        key, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32U) | above, word_2, word_3});
  }
};

/// Groups that are made at a time.
inline constexpr std::int64_t philox_batch = 8;

/// The words of `groups` groups from `first` on, one behind the other. `words` has room for four of each group up to a
/// multiple of philox_batch. In vectors of what current_isa() names; the words are the same for all.
void fill_philox(PhiloxSequence const& sequence, std::uint64_t first, std::int64_t groups,
                 std::uint32_t* words) noexcept;

}  // namespace zeroth
