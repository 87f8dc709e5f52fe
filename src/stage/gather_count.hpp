// SPDX-License-Identifier: Apache-2.0
/// How often a step gathers each flat unit.
#pragma once
#include <cstdint>

#include "shard/layout.hpp"
#include "stage/schedule.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// By a rehearsal of the schedule: of a step that follows another one, whose passes take the declared order. None where
/// parameters are whole. Costs time by the turns of two steps.
[[nodiscard]] ById<shard::FlatId, std::int64_t> count_gathers(shard::Layout const& layout, Settings const& settings,
                                                              ScheduleLimits const& limits);

}  // namespace zeroth::stage
