// SPDX-License-Identifier: Apache-2.0
/// A number over ranks: which rank is the slowest.
#pragma once
#include <span>
#include <string>

#include "zeroth/comm/job.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

/// The least, mean and greatest value over ranks, and the ranks that have them. Of equal values the lowest rank's.
struct RankSpread {
  double least = 0, mean = 0, most = 0;
  int least_rank = 0, most_rank = 0;
};

/// Rank r has values[r]. Throws ContractError if there are none.
[[nodiscard]] ZEROTH_EXPORT RankSpread spread_of(std::span<double const> values);
/// The spread of `mine` over all ranks, on all ranks. Collective; waits. For times and memory that a StepReport has of
/// its own rank only.
[[nodiscard]] ZEROTH_EXPORT RankSpread spread_over_ranks(Job& job, double mine);
/// "10.100 ms at least (rank 1), 12.000 ms on average, 15.200 ms at most (rank 3, 1.27 times the average)"
[[nodiscard]] ZEROTH_EXPORT std::string describe(RankSpread const& spread, std::string const& unit);

}  // namespace zeroth
