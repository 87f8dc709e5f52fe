// SPDX-License-Identifier: Apache-2.0
/// Runs a program as ranks, and again where that may help.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/comm/communicator.hpp>

namespace zeroth::tools {

struct AgentOptions {
  int ranks = 1;
  int min_ranks = 1;     ///< `ranks`, if fewer will not do.
  int max_restarts = 0;  ///< In a row, without progress.
  comm::Transport transport = comm::Transport::local;
  std::string mpirun = "mpirun";     ///< Words between blanks, to which "-n RANKS PROGRAM ..." is appended.
  std::filesystem::path checkpoint;  ///< Whose file `latest` changes when there is progress; empty: nobody tells.
  std::chrono::seconds grace{15};    ///< With nccl and tcp: for the other processes to end, after one has failed.
  std::filesystem::path log_dir;     ///< Of files that ranks write to in place of the screen; empty: there are none.
  bool tee = false;                  ///< And what is written to them is shown.
  std::vector<std::string> program;  ///< With its arguments.
};

/// Until the program is done, has stopped, is wrong, has failed too often, or was asked to end: docs/restart.md. One
/// line on standard error for every restart; where an attempt of several processes has failed, how each has ended, and
/// last the one that failed first, with the end of its log. Returns the exit status of the last attempt.
[[nodiscard]] int run_agent(AgentOptions const& options);

}  // namespace zeroth::tools
