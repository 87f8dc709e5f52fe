/// What all ranks know, on the first.
#pragma once
#include <vector>

#include <zeroth/comm/job.hpp>

#include "report.hpp"

namespace gpt {

/// Every rank's `mine` in rank order, on rank 0; on the others unspecified. Collective; waits.
[[nodiscard]] std::vector<RankMemory> gather(zeroth::Job& job, RankMemory const& mine);

}  // namespace gpt
