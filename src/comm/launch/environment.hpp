// SPDX-License-Identifier: Apache-2.0
/// Launchers: what their variables say about this process, and what is made of it.
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
  std::optional<int> local_rank = std::nullopt;  ///< If the launcher says it.
  bool starts_mpi = false;                       ///< The launcher is MPI's own.
  Launcher kind = Launcher::torchrun;
  std::optional<int> local_world = std::nullopt;  ///< Ranks on this machine, if the launcher says it.
};

/// The variable by which `launcher` says a process's index on its machine.
[[nodiscard]] char const* local_rank_variable(Launcher launcher) noexcept;

/// Reads a variable: its value, or null.
using Variables = std::function<char const*(char const*)>;

/// The whole number from `least` to `most` that is `text`, the value of variable `name`. Throws ConfigError otherwise.
[[nodiscard]] std::int64_t whole_number(std::string_view name, std::string_view text, std::int64_t least,
                                        std::int64_t most);

/// The first launcher that says anything: Open MPI, torchrun, MPICH and its kin, Slurm; none if none does. Slurm comes
/// last because mpirun and torchrun are started inside its steps, where its own variables number something else.
/// Throws ConfigError that quotes the variables where some are missing, are not numbers, or contradict each other: a
/// rank outside of its world, on its machine too; torchrun's variables, which people also set by hand, against those of
/// Open MPI or MPICH; and, if it was not torchrun that set them, another rank than srun's in a world that is srun's.
[[nodiscard]] std::optional<LaunchedRank> find_launched_rank(Variables const& variable);
/// `variable` as a job of threads sees it that is asked for: WORLD_SIZE without RANK, which some platforms set for all
/// programs, is no launcher's. For others it is as it was.
[[nodiscard]] Variables without_lone_world(Variables variable, LaunchOptions const& options);

/// `options` as `zeroth run` wants them, which says in ZEROTH_THREAD_RANKS how many ranks are to be threads of this
/// process; unchanged where it says nothing. Throws ConfigError for what is no number of ranks, where a launcher
/// started this process as one of several, and where the program asks for a transport between processes.
[[nodiscard]] LaunchOptions with_thread_ranks(LaunchOptions options, std::optional<LaunchedRank> const& launched,
                                              Variables const& variable);

/// How a job is run.
struct LaunchPlan {
  Transport transport = Transport::local;
  int thread_ranks = 1;  ///< With local: ranks of this process.
};

/// LaunchOptions' rules. A launcher's ranks win over thread ranks, so that one program runs either way. Throws
/// ConfigError for what is refused.
[[nodiscard]] LaunchPlan plan_launch(LaunchOptions const& options, std::optional<LaunchedRank> const& launched,
                                     bool has_mpi);

/// Throws ConfigError if MPI sees another job than the launcher's variables: the processes were not started so that
/// this MPI finds its peers.
void check_agreement(LaunchedRank const& launched, int mpi_rank, int mpi_world);

}  // namespace zeroth::comm
