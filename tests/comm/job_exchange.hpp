// SPDX-License-Identifier: Apache-2.0
/// Exchanges among a job's ranks, as a program for every transport.
#pragma once
#include <string>
#include <vector>

#include "zeroth/comm/job.hpp"

namespace zeroth::testing {

/// Bytes of another length for each rank, zeros among them; rank 1 has none.
inline std::string bytes_of_rank(int rank) {
  std::string bytes;
  for (int i = 0; rank != 1 && i < 1000 * (rank + 1) + rank; ++i) {
    bytes += static_cast<char>(i % 251);
  }
  return bytes;
}

/// The problem on this rank; empty if there is none. All ranks of `job` are on this machine.
inline std::string problem_of_exchange(Job& job) {
  std::vector<std::string> all;
  for (int rank = 0; rank < job.world(); ++rank) {
    all.push_back(bytes_of_rank(rank));
  }
  auto const own = bytes_of_rank(job.rank());
  if (job.all_gather(own) != all) {
    return "all_gather";
  }
  for (int root = 0; root < job.world(); ++root) {
    if (job.gather(own, root) != (root == job.rank() ? all : std::vector<std::string>{})) {
      return "gather";
    }
    if (job.broadcast(own, root) != bytes_of_rank(root)) {
      return "broadcast";
    }
  }
  if (job.gather("").size() != (job.rank() == 0 ? all.size() : 0) || !job.broadcast("").empty()) {
    return "empty bytes";
  }
  auto const machine = job.machine();
  Job here = job.split_by_machine("here");
  bool const one_machine = machine.index == 0 && machine.count == 1 && machine.rank == job.rank() &&
                           machine.ranks == job.world() && here.rank() == job.rank() && here.world() == job.world();
  return one_machine ? "" : "machine";
}

}  // namespace zeroth::testing
