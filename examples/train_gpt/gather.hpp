// SPDX-License-Identifier: Apache-2.0
/// Gathers data of all ranks on the first.
#pragma once
#include <string>
#include <vector>

#include <zeroth/comm/job.hpp>

#include "report.hpp"

namespace gpt {

/// Gathers every rank's `mine` in rank order on rank 0; unspecified on the others. Collective; waits.
[[nodiscard]] std::vector<RankMemory> gather(zeroth::Job& job, RankMemory const& mine);

/// Gathers text of any length; `label` names the collective in reports about stuck ones.
[[nodiscard]] std::vector<std::string> gather(zeroth::Job& job, zeroth::comm::Label const& label,
                                              std::string const& mine);

}  // namespace gpt
