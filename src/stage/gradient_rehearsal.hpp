// SPDX-License-Identifier: Apache-2.0
/// Computes the number of gradient slots that a program's own order of units needs.
#pragma once
#include <span>

#include "shard/layout.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// The smallest value of zeroth.gradient_slots above that of `settings` with which backward finds slots, if it takes
/// the forward turns `forward` in reverse, one guard at a time. The cost is turns times values tried.
[[nodiscard]] int gradient_slots_for(shard::Layout const& layout, Settings const& settings,
                                     std::span<UnitId const> forward);

}  // namespace zeroth::stage
