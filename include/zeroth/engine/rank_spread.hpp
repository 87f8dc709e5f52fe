// SPDX-License-Identifier: Apache-2.0
/// A number over ranks: which rank is the slowest.
#pragma once
#include <span>
#include <string>

#include "zeroth/comm/job.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

/// How a number differs over ranks.
struct RankSpread {
  double least = 0;    ///< The least value.
  double mean = 0;     ///< The mean over ranks.
  double most = 0;     ///< The greatest value.
  int least_rank = 0;  ///< The rank with the least value; of several the lowest.
  int most_rank = 0;   ///< The rank with the greatest value; of several the lowest.
};

/// Rank r has values[r]. Throws ContractError if there are none.
[[nodiscard]] ZEROTH_EXPORT RankSpread spread_of(std::span<double const> values);
/// The spread of `mine` over all ranks, on all ranks. Collective; waits. For times and memory that a StepReport has
/// only for its own rank.
[[nodiscard]] ZEROTH_EXPORT RankSpread spread_over_ranks(Job& job, double mine);
/// "10.100 ms at least (rank 1), 12.000 ms on average, 15.200 ms at most (rank 3, 1.27 times the average)"
[[nodiscard]] ZEROTH_EXPORT std::string describe(RankSpread const& spread, std::string const& unit);

}  // namespace zeroth
