#include "comm/environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

/// The variables of one launcher.
struct Launcher {
  char const* name;
  char const* rank;
  char const* world;
  char const* local_rank;
  bool starts_mpi;
};

constexpr Launcher torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", false};
constexpr Launcher open_mpi{"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", true};
constexpr Launcher mpich{"mpiexec (MPICH)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", true};
// SLURM_STEP_NUM_TASKS is set by srun alone. SLURM_NTASKS, and SLURM_PROCID=0 with it, are also seen by the batch
// script, which is no rank.
constexpr Launcher slurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", false};

int number_in(char const* name, std::string_view text, int least) {
  int value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least) {
    throw ConfigError{fmt::format("{}='{}' in the environment: allowed are whole numbers from {}", name, text, least)};
  }
  return value;
}

/// Nothing if the launcher's variables are not set. An error if only one of them is.
std::optional<Placement> read(Launcher const& launcher, Variables const& variable) {
  char const* const rank = variable(launcher.rank);
  char const* const world = variable(launcher.world);
  if (rank == nullptr && world == nullptr) {
    return std::nullopt;
  }
  if (rank == nullptr || world == nullptr) {
    throw ConfigError{fmt::format("{} is set in the environment and {} is not: {} sets both; unset it, or set both",
                                  rank != nullptr ? launcher.rank : launcher.world,
                                  rank != nullptr ? launcher.world : launcher.rank, launcher.name)};
  }
  Placement placement{.launcher = launcher.name,
                      .variables = fmt::format("{}={} {}={}", launcher.rank, rank, launcher.world, world),
                      .rank = number_in(launcher.rank, rank, 0),
                      .world = number_in(launcher.world, world, 1),
                      .local_rank = std::nullopt,
                      .starts_mpi = launcher.starts_mpi};
  if (placement.rank >= placement.world) {
    throw ConfigError{fmt::format("{} in the environment: the rank must be less than the world", placement.variables)};
  }
  if (char const* const local_rank = variable(launcher.local_rank)) {
    placement.local_rank = number_in(launcher.local_rank, local_rank, 0);
  }
  return placement;
}

}  // namespace

std::optional<Placement> find_placement(Variables const& variable) {
  auto const from_torchrun = read(torchrun, variable);
  auto const from_open_mpi = read(open_mpi, variable);
  if (from_torchrun && from_open_mpi &&
      (from_torchrun->rank != from_open_mpi->rank || from_torchrun->world != from_open_mpi->world)) {
    throw ConfigError{fmt::format("{} and {} contradict each other in the environment: unset those that are left over",
                                  from_torchrun->variables, from_open_mpi->variables)};
  }
  if (from_open_mpi) {
    return from_open_mpi;
  }
  if (from_torchrun) {
    return from_torchrun;
  }
  if (auto const placement = read(mpich, variable)) {
    return placement;
  }
  return variable(slurm.world) == nullptr ? std::nullopt : read(slurm, variable);
}

LaunchPlan plan_launch(LaunchOptions const& options, std::optional<Placement> const& placement, bool has_mpi) {
  if (options.thread_ranks < 1) {
    throw ConfigError{fmt::format("LaunchOptions::thread_ranks is {}: allowed are 1 and more", options.thread_ranks)};
  }
  bool const several = placement && placement->world > 1;
  if (several && options.transport == Transport::local) {
    throw ConfigError{
        fmt::format("transport local was asked for, but {} started this process as rank {} of {} ({}): "
                    "ask for mpi, or start one process alone",
                    placement->launcher, placement->rank, placement->world, placement->variables)};
  }
  bool const needs_mpi = several || options.transport == Transport::mpi;
  if (needs_mpi && !has_mpi) {
    throw ConfigError{
        several ? fmt::format("{} started this process as rank {} of {} ({}), but this library was built without MPI, "
                              "by which processes communicate: build it where CMake finds MPI, or run ranks as threads",
                              placement->launcher, placement->rank, placement->world, placement->variables)
                : "transport mpi was asked for, but this library was built without it: build it where CMake finds MPI, "
                  "or ask for local"};
  }
  if (needs_mpi) {
    return {Transport::mpi, 1};
  }
  if (!placement || options.transport == Transport::local) {
    return {Transport::local, options.thread_ranks};
  }
  // One process, and a launcher: one rank, as with any other number of processes.
  return {has_mpi && placement->starts_mpi ? Transport::mpi : Transport::local, 1};
}

void check_agreement(Placement const& placement, int mpi_rank, int mpi_world) {
  if (placement.rank == mpi_rank && placement.world == mpi_world) {
    return;
  }
  throw ConfigError{
      fmt::format("{} ({}), but MPI sees rank {} in a world of {}: processes communicate by MPI here, so start them "
                  "with mpirun -n {} "
                  "of the MPI that this library was built with, or with srun --mpi=pmix",
                  placement.variables, placement.launcher, mpi_rank, mpi_world, placement.world)};
}

}  // namespace zeroth::comm
