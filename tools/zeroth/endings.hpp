// SPDX-License-Identifier: Apache-2.0
/// How the processes of an attempt have ended, in words.
#pragma once
#include <string>

#include "processes.hpp"
#include "rank_logs.hpp"

namespace zeroth::tools {

/// Of all processes of an attempt, the one that decides, and it in words.
struct Verdict {
  int exit_code = ExitCode::done;
  std::string words;  ///< "rank 2: exit status 1"; of ranks that are in one process, or below one, "exit status 1".
  std::string
      account;  ///< Lines on how each ended, where several did and one failed; that one last, with its log's end.
};

/// Once all have ended. `are_ranks`: there is a process for each.
[[nodiscard]] Verdict verdict_of(Processes const& processes, bool are_ranks, RankLogs const& logs);

}  // namespace zeroth::tools
