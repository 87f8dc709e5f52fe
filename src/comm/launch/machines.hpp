// SPDX-License-Identifier: Apache-2.0
/// The machines of a job's ranks.
#pragma once
#include <string>
#include <vector>

#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// The machine of `rank`. `ids` [world] are the machine_id() of each rank.
[[nodiscard]] Job::Machine machine_among(std::vector<std::string> const& ids, int rank);

}  // namespace zeroth::comm
