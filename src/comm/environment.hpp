/// Launchers: what their variables say about this process, and what is made of it.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// A process that a launcher started as one rank of a job.
struct Placement {
  std::string launcher;   ///< "mpirun (Open MPI)"
  std::string variables;  ///< "RANK=1 WORLD_SIZE=4"
  int rank = 0;
  int world = 1;
  std::optional<int> local_rank;  ///< If the launcher says it.
  bool starts_mpi = false;        ///< The launcher is MPI's own.
};

/// Reads a variable: its value, or null.
using Variables = std::function<char const*(char const*)>;

/// The first launcher that says anything: torchrun, Open MPI, MPICH and its kin, Slurm; none if none does. Slurm comes
/// last because mpirun and torchrun are started inside its steps, where its own variables number something else.
/// Throws ConfigError where variables are missing or not numbers, or where torchrun's and Open MPI's contradict.
[[nodiscard]] std::optional<Placement> find_placement(Variables const& variable);

/// How a job is run.
struct LaunchPlan {
  Transport transport = Transport::local;
  int thread_ranks = 1;  ///< With local: ranks of this process.
};

/// LaunchOptions' rules. A launcher's ranks win over thread ranks, so that one program runs either way. Throws
/// ConfigError for what is refused.
[[nodiscard]] LaunchPlan plan_launch(LaunchOptions const& options, std::optional<Placement> const& placement,
                                     bool has_mpi);

/// Throws ConfigError if MPI sees another job than the launcher's variables: the processes were not started so that
/// this MPI finds its peers.
void check_agreement(Placement const& placement, int mpi_rank, int mpi_world);

}  // namespace zeroth::comm
