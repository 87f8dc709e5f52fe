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

/// The same for text of any length; `label` is for what names stuck collectives.
[[nodiscard]] std::vector<std::string> gather(zeroth::Job& job, zeroth::comm::Label const& label,
                                              std::string const& mine);

}  // namespace gpt
