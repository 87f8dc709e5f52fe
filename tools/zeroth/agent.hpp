// SPDX-License-Identifier: Apache-2.0
/// Runs a program as ranks, and restarts it if that may help.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <zeroth/comm/communicator.hpp>

namespace zeroth::tools {

struct AgentOptions {
  int ranks = 1;
  int min_ranks = 1;     ///< Equal to `ranks` if fewer ranks are not possible.
  int max_restarts = 0;  ///< Consecutive restarts without progress.
  comm::Transport transport = comm::Transport::local;
  std::string mpirun = "mpirun";     ///< A command line to which "-n RANKS PROGRAM ..." is appended.
  std::filesystem::path checkpoint;  ///< Progress is a change of its file `latest`; empty: progress is unknown.
  std::chrono::seconds grace{15};    ///< With nccl and tcp: time for the other processes to exit after one has failed.
  std::filesystem::path log_dir;     ///< For files that ranks write to instead of the screen; empty: no files.
  bool tee = false;                  ///< Also prints what ranks write to the files.
  std::vector<std::string> program;  ///< With arguments.
};

/// Runs until the program is done, has stopped, is wrong, has failed too often, or was asked to end: see
/// docs/restart.md. Prints one line on standard error for every restart. If an attempt of several processes failed,
/// also prints how each ended; the process that failed first comes last, with the end of its log. Returns the exit
/// status of the last attempt.
[[nodiscard]] int run_agent(AgentOptions const& options);

}  // namespace zeroth::tools
