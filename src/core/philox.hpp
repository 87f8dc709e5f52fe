// SPDX-License-Identifier: Apache-2.0
/// Random numbers without state: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, section 5.3).
#pragma once
#include <array>
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// Four random words, the lowest first.
using PhiloxWords = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// A function of key and counter alone; counters of one key give independent words.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE constexpr PhiloxWords philox(PhiloxKey key,
                                                                                  PhiloxWords counter) noexcept {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const a = std::uint64_t{0xD2511F53U} * counter[0];
    std::uint64_t const b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace zeroth
