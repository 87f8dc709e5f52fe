// SPDX-License-Identifier: Apache-2.0
/// How often a step gathers each flat unit.
#pragma once
#include <cstdint>

#include "shard/layout.hpp"
#include "stage/schedule.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// Together in `steps` steps, which then come again: more than one where frozen units take turns in staying gathered.
struct GatherCount {
  ById<shard::FlatId, std::int64_t> gathers;
  std::int64_t steps = 1;
};

/// By a rehearsal of the schedule: of steps that follow others, whose passes take the declared order. None where
/// parameters are whole. Costs time by the turns of those steps and of the ones before, mostly two.
[[nodiscard]] GatherCount count_gathers(shard::Layout const& layout, Settings const& settings,
                                        ScheduleLimits const& limits);

}  // namespace zeroth::stage
