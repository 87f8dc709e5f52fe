// SPDX-License-Identifier: Apache-2.0
#include "stage/policy.hpp"

#include <fmt/format.h>

#include <array>

#include "zeroth/core/error.hpp"

namespace zeroth::stage {

using shard::Placement;
using shard::Placements;

Placements placements_of(int stage) {
  static constexpr std::array stages{
      Placements{Placement::whole, Placement::whole, Placement::whole},
      Placements{Placement::whole, Placement::whole, Placement::shard},
      Placements{Placement::whole, Placement::shard, Placement::shard},
      Placements{Placement::shard, Placement::shard, Placement::shard},
  };
  ZEROTH_EXPECTS(stage >= 0 && stage < static_cast<int>(stages.size()),
                 fmt::format("there is no stage {}: stages are 0, 1, 2 and 3", stage));
  return stages[static_cast<std::size_t>(stage)];
}

Placements placements_for(Settings const& settings) {
  auto placements = placements_of(settings.stage);
  bool const backward_adds_up = settings.reduce_gradients == ReduceGradients::last_micro_step &&
                                settings.batch.accumulation > 1 && !settings.sums_micro_steps;
  if (backward_adds_up) {
    placements.gradients = Placement::whole;
  }
  return placements;
}

}  // namespace zeroth::stage
