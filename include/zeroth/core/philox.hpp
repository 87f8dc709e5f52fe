// SPDX-License-Identifier: Apache-2.0
/// Random numbers without state: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, section 5.3).
#pragma once
#include <array>
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// Four words of 32 bits, the lowest first: a counter, or the random words that are made of one.
using PhiloxWords = std::array<std::uint32_t, 4>;
/// Two words of 32 bits, the lower first.
using PhiloxKey = std::array<std::uint32_t, 2>;

namespace detail {
inline constexpr std::uint32_t philox_factor_0 = 0xD2511F53U, philox_factor_1 = 0xCD9E8D57U;
inline constexpr std::uint32_t philox_key_step_0 = 0x9E3779B9U, philox_key_step_1 = 0xBB67AE85U;
inline constexpr int philox_rounds = 10;
}  // namespace detail

/// A function of key and counter alone; counters of one key give independent words. The same on CPUs and GPUs. Throws
/// nothing, keeps nothing.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE constexpr PhiloxWords philox(PhiloxKey key,
                                                                                  PhiloxWords counter) noexcept {
  for (int round = 0; round < detail::philox_rounds; ++round) {
    std::uint64_t const a = std::uint64_t{detail::philox_factor_0} * counter[0];
    std::uint64_t const b = std::uint64_t{detail::philox_factor_1} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += detail::philox_key_step_0;
    key[1] += detail::philox_key_step_1;
  }
  return counter;
}

}  // namespace zeroth
