// SPDX-License-Identifier: Apache-2.0
/// Random words of many counters at once.
#pragma once
#include <cstdint>

#include "zeroth/core/philox.hpp"

namespace zeroth {

/// Counters that differ only in the number of their group.
struct PhiloxSequence {
  PhiloxKey key;
  std::uint32_t above;  ///< The bits of word 1 in addition to the group's upper half. No bit may be set in both.
  std::uint32_t word_2, word_3;

  [[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE constexpr PhiloxWords operator[](
      std::uint64_t group) const noexcept {
    return philox(
        key, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32U) | above, word_2, word_3});
  }
};

/// Groups computed at a time.
inline constexpr std::int64_t philox_batch = 8;

/// Writes the words of `groups` groups from `first` on, contiguously. `words` has room for four words of each group,
/// with the number of groups rounded up to a multiple of philox_batch. Uses vectors of current_isa(); the words do not
/// depend on it.
void fill_philox(PhiloxSequence const& sequence, std::uint64_t first, std::int64_t groups,
                 std::uint32_t* words) noexcept;

}  // namespace zeroth
