// SPDX-License-Identifier: Apache-2.0
/// Reads the variables of launchers, and decides how to run the job.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

enum class Launcher : std::uint8_t { torchrun, open_mpi, mpich, slurm };

/// A process that a launcher started as one rank of a job.
struct LaunchedRank {
  std::string launcher;   ///< "mpirun (Open MPI)"
  std::string variables;  ///< "RANK=1 WORLD_SIZE=4"
  int rank = 0;
  int world = 1;
  std::optional<int> local_rank = std::nullopt;  ///< If the launcher sets it.
  bool starts_mpi = false;                       ///< Whether the launcher is MPI's own.
  Launcher kind = Launcher::torchrun;
  std::optional<int> local_world = std::nullopt;  ///< Ranks on this machine, if the launcher sets it.
};

/// The variable in which `launcher` passes a process's index on its machine.
[[nodiscard]] char const* local_rank_variable(Launcher launcher) noexcept;

/// Returns the value of a variable, or null.
using Variables = std::function<char const*(char const*)>;

/// The whole number from `least` to `most` in `text`, the value of variable `name`. Throws ConfigError otherwise.
[[nodiscard]] std::int64_t whole_number(std::string_view name, std::string_view text, std::int64_t least,
                                        std::int64_t most);

/// The first launcher whose variables are set: Open MPI, torchrun, MPICH and its relatives, Slurm; none if no variables
/// are set. Slurm is last because mpirun and torchrun are started inside its steps, where its own variables number
/// something else.
/// Throws ConfigError that quotes the variables if some are missing, are not numbers, or contradict each other: a rank
/// outside of its world, also on its machine; torchrun's variables, which people also set by hand, against those of
/// Open MPI or MPICH; and, unless torchrun set them, another rank than srun's in a world of srun's size.
[[nodiscard]] std::optional<LaunchedRank> find_launched_rank(Variables const& variable);
/// Hides WORLD_SIZE without RANK, which some platforms set for all programs, from a job that requests threads. For
/// other jobs it returns `variable` unchanged.
[[nodiscard]] Variables without_lone_world(Variables variable, LaunchOptions const& options);

/// `options` with the number of thread ranks that `zeroth run` passes in ZEROTH_THREAD_RANKS; unchanged if that is not
/// set. Throws ConfigError if it is not a valid number of ranks, if a launcher started this process as one of several,
/// or if the program requests a transport between processes.
[[nodiscard]] LaunchOptions with_thread_ranks(LaunchOptions options, std::optional<LaunchedRank> const& launched,
                                              Variables const& variable);

/// Throws ConfigError if ZEROTH_SPIN has a value that is not allowed.
void check_spin_variable(Variables const& variable);

/// How to run a job.
struct LaunchPlan {
  Transport transport = Transport::local;
  int thread_ranks = 1;  ///< With local: ranks of this process.
};

/// Applies LaunchOptions' rules. A launcher's ranks take precedence over thread ranks, so that one program runs either
/// way. Throws ConfigError for combinations that are rejected.
[[nodiscard]] LaunchPlan plan_launch(LaunchOptions const& options, std::optional<LaunchedRank> const& launched,
                                     bool has_mpi);

/// Throws ConfigError if MPI sees another job than the launcher's variables: the processes were not started in a way
/// that lets this MPI find its peers.
void check_agreement(LaunchedRank const& launched, int mpi_rank, int mpi_world);

}  // namespace zeroth::comm
