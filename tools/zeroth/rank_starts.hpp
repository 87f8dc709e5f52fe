// SPDX-License-Identifier: Apache-2.0
/// The processes to start so that a program runs as ranks.
#pragma once
#include <vector>

#include "agent.hpp"
#include "processes.hpp"

namespace zeroth::tools {

/// The processes of attempt `attempt`, from 1, with `ranks` ranks: one process that launch() divides into threads, an
/// mpirun, or with nccl and tcp one process per rank, in order of rank. Throws SystemError if no port is free.
[[nodiscard]] std::vector<Start> rank_starts(AgentOptions const& options, int ranks, int attempt);

}  // namespace zeroth::tools
