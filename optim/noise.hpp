// SPDX-License-Identifier: Apache-2.0
/// The random bits of many elements at once.
#pragma once
#include <cstdint>

#include "stochastic_rounding.hpp"

namespace zeroth::optim {

/// Groups that are made at a time.
inline constexpr std::int64_t noise_batch = 8;

/// noise_words() of `groups` groups from `first` on, one behind the other. `words` has room for four of each group up
/// to a multiple of noise_batch. In vectors of what current_isa() names; the words are the same for all.
void fill_noise(RoundingNoise const& noise, Rounded what, std::uint64_t first, std::int64_t groups,
                std::uint32_t* words) noexcept;

}  // namespace zeroth::optim
