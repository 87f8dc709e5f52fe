// SPDX-License-Identifier: Apache-2.0
/// How many gradient slots a program's own order of units takes.
#pragma once
#include <span>

#include "shard/layout.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// The least value of zeroth.gradient_slots above that of `settings` with which backward finds slots, if it takes the
/// forward turns `forward` in reverse, one guard after the other. Costs time by turns times values.
[[nodiscard]] int gradient_slots_for(shard::Layout const& layout, Settings const& settings,
                                     std::span<UnitId const> forward);

}  // namespace zeroth::stage
