// SPDX-License-Identifier: Apache-2.0
/// The run of one rank of a drawn job, from its first engine to its last.
#pragma once
#include "jobs/drawn.hpp"
#include "jobs/record.hpp"
#include "jobs/segment.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::testing::jobs {

/// Adds its results to `record`.
void run_rank(Job& job, Drawn const& drawn, Place const& place, Record& record);
/// Once all ranks have ended: the states of the last checkpoint.
void add_states(Drawn const& drawn, Place const& place, Record& record);

}  // namespace zeroth::testing::jobs
