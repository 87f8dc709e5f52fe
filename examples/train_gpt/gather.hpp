// SPDX-License-Identifier: Apache-2.0
/// What all ranks know, on the first.
#pragma once
#include <string>
#include <vector>

#include <zeroth/comm/job.hpp>

#include "report.hpp"

namespace gpt {

/// Every rank's `mine` in rank order, on rank 0; on the others unspecified. Collective; waits.
[[nodiscard]] std::vector<RankMemory> gather(zeroth::Job& job, RankMemory const& mine);

/// The same for text of any length.
[[nodiscard]] std::vector<std::string> gather(zeroth::Job& job, std::string const& mine);

}  // namespace gpt
