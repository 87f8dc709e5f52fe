// SPDX-License-Identifier: Apache-2.0
/// Stateless random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, section 5.3).
#pragma once
#include <array>
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

/// Four 32-bit words, lowest first: a counter, or the random words computed from one.
using PhiloxWords = std::array<std::uint32_t, 4>;
/// Two 32-bit words, lower first.
using PhiloxKey = std::array<std::uint32_t, 2>;

namespace detail {
inline constexpr std::uint32_t philox_factor_0 = 0xD2511F53U, philox_factor_1 = 0xCD9E8D57U;
inline constexpr std::uint32_t philox_key_step_0 = 0x9E3779B9U, philox_key_step_1 = 0xBB67AE85U;
inline constexpr int philox_rounds = 10;
}  // namespace detail

/// A pure function of key and counter. Different counters of one key give independent words. Bitwise equal on CPUs and
/// GPUs.
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
