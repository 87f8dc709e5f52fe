// SPDX-License-Identifier: Apache-2.0
/// What to start so that a program becomes ranks.
#pragma once
#include <vector>

#include "agent.hpp"
#include "processes.hpp"

namespace zeroth::tools {

/// For attempt `attempt`, from 1, with `ranks`: one process that launch() divides into threads, an mpirun, or with nccl
/// and tcp a process for each rank, in the order of ranks. Throws SystemError where no port is free.
[[nodiscard]] std::vector<Start> rank_starts(AgentOptions const& options, int ranks, int attempt);

}  // namespace zeroth::tools
