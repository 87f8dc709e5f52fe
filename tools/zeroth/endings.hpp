// SPDX-License-Identifier: Apache-2.0
/// Describes how the processes of an attempt ended.
#pragma once
#include <string>

#include "processes.hpp"
#include "rank_logs.hpp"

namespace zeroth::tools {

/// The outcome of an attempt: the process that decides its exit status, and a description.
struct Outcome {
  int exit_code = ExitCode::done;
  std::string words;    ///< "rank 2: exit status 1", or "exit status 1" if one process runs or starts all ranks.
  std::string account;  ///< Lines on how each process ended, if there are several and one failed. The failed one comes
                        ///< last, with the end of its log.
};

/// Call it when all processes have ended. `are_ranks`: each process is a rank.
[[nodiscard]] Outcome outcome_of(Processes const& processes, bool are_ranks, RankLogs const& logs);

}  // namespace zeroth::tools
