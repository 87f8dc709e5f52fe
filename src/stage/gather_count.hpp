// SPDX-License-Identifier: Apache-2.0
/// Counts how often a step gathers each flat unit.
#pragma once
#include <cstdint>

#include "shard/layout.hpp"
#include "stage/schedule.hpp"
#include "zeroth/config/settings.hpp"

namespace zeroth::stage {

/// Sums over `steps` steps, after which the pattern repeats: more than one if frozen units take turns in staying
/// gathered.
struct GatherCount {
  ById<shard::FlatId, std::int64_t> gathers;
  std::int64_t steps = 1;
};

/// Dry-runs the schedule for steady-state steps in declared order. Returns zeros if parameters are whole. The cost
/// grows with the turns of the counted steps and of those before them, mostly two steps.
[[nodiscard]] GatherCount count_gathers(shard::Layout const& layout, Settings const& settings,
                                        ScheduleLimits const& limits);

}  // namespace zeroth::stage
