// SPDX-License-Identifier: Apache-2.0
/// How long each rank's own work took, to name the slowest rank.
#pragma once
#include <optional>

#include "zeroth/engine/rank_spread.hpp"
#include "zeroth/engine/report.hpp"

namespace zeroth::engine {

/// Adds up the time of steps without waits for other ranks, from one line of the log to the next.
class OwnTimes {
 public:
  /// Adds a step. If a line with wall_clock_breakdown is due, returns the spread over ranks of the mean since the last
  /// one; that is collective, and waits.
  [[nodiscard]] std::optional<RankSpread> add(StepReport const& report, detail::EngineState const& engine);

 private:
  double sum_ms_ = 0;
  int steps_ = 0;
};

}  // namespace zeroth::engine
