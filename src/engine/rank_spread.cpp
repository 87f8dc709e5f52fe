// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/rank_spread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/engine_state.hpp"
#include "engine/own_times.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {

RankSpread spread_of(std::span<double const> values) {
  ZEROTH_EXPECTS(!values.empty(), "spread_of() no values");
  auto const [least, most] = std::ranges::minmax_element(values);
  auto const first_most = std::ranges::find(values, *most);
  return {.least = *least,
          .mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .most = *most,
          .least_rank = static_cast<int>(least - values.begin()),
          .most_rank = static_cast<int>(first_most - values.begin())};
}

RankSpread spread_over_ranks(Job& job, double mine) {
  std::vector<double> values(static_cast<std::size_t>(job.world()));
  values[static_cast<std::size_t>(job.rank())] = mine;
  job.sum(values);  // the others' zeros add nothing
  return spread_of(values);
}

std::string describe(RankSpread const& spread, std::string const& unit) {
  auto const factor = spread.mean > 0 ? fmt::format(", {:.2f} times the average", spread.most / spread.mean) : "";
  return fmt::format("{:.3f} {} at least (rank {}), {:.3f} {} on average, {:.3f} {} at most (rank {}{})", spread.least,
                     unit, spread.least_rank, spread.mean, unit, spread.most, unit, spread.most_rank, factor);
}

namespace engine {

std::optional<RankSpread> OwnTimes::add(StepReport const& report, detail::EngineState const& engine) {
  auto const& settings = engine.settings();
  auto const interval = settings.reports.wall_clock_breakdown ? lines_every(settings.reports) : 0;
  if (interval == 0 || (engine.runtime.servers && engine.runtime.servers->is_stale())) {
    return std::nullopt;
  }
  sum_ms_ += report.step_ms - report.exposed_comm_ms - report.bubble_ms;
  ++steps_;
  if (report.step % interval != 0) {
    return std::nullopt;
  }
  auto const mine = std::exchange(sum_ms_, 0) / static_cast<double>(std::exchange(steps_, 0));
  auto const whole = engine.runtime.whole();
  auto const of_ranks = gather(std::span{&mine, 1}, "own times", whole);
  std::vector<double> by_job_rank(of_ranks.size());
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    by_job_rank[static_cast<std::size_t>(whole.job_rank(rank))] = of_ranks[rank];
  }
  return spread_of(by_job_rank);
}

}  // namespace engine
}  // namespace zeroth
