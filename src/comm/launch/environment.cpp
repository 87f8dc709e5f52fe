// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <utility>

#include "comm/spinning.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr int most_thread_ranks = 4096;  // each is a thread, and waits for every other one

/// The variables of one launcher.
struct LauncherVariables {
  Launcher kind;
  char const* name;
  char const* rank;
  char const* world;
  char const* local_rank;
  char const* local_world;  // null if it has none
  bool starts_mpi;
};

constexpr LauncherVariables torchrun{
    .kind = Launcher::torchrun,
    .name = "torchrun",
    .rank = "RANK",
    .world = "WORLD_SIZE",
    .local_rank = "LOCAL_RANK",
    .local_world = "LOCAL_WORLD_SIZE",
    .starts_mpi = false,
};
constexpr LauncherVariables open_mpi{
    .kind = Launcher::open_mpi,
    .name = "mpirun (Open MPI)",
    .rank = "OMPI_COMM_WORLD_RANK",
    .world = "OMPI_COMM_WORLD_SIZE",
    .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
    .local_world = "OMPI_COMM_WORLD_LOCAL_SIZE",
    .starts_mpi = true,
};
constexpr LauncherVariables mpich{
    .kind = Launcher::mpich,
    .name = "mpiexec (MPICH)",
    .rank = "PMI_RANK",
    .world = "PMI_SIZE",
    .local_rank = "MPI_LOCALRANKID",
    .local_world = "MPI_LOCALNRANKS",
    .starts_mpi = true,
};
// Only srun sets SLURM_STEP_NUM_TASKS. The batch script, which is no rank, also has SLURM_NTASKS and SLURM_PROCID=0.
constexpr LauncherVariables slurm{
    .kind = Launcher::slurm,
    .name = "srun",
    .rank = "SLURM_PROCID",
    .world = "SLURM_STEP_NUM_TASKS",
    .local_rank = "SLURM_LOCALID",
    .local_world = nullptr,
    .starts_mpi = false,
};

constexpr auto thread_ranks_variable = "ZEROTH_THREAD_RANKS";

/// A variable and its value: "LOCAL_RANK=1".
struct Number {
  int value = 0;
  std::string words;
};
std::optional<Number> number_in(Variables const& variable, char const* name, int least) {
  char const* const text = name == nullptr ? nullptr : variable(name);
  if (text == nullptr) {
    return std::nullopt;
  }
  auto const value = whole_number(name, text, least, std::numeric_limits<int>::max());
  return Number{static_cast<int>(value), fmt::format("{}={}", name, text)};
}

/// nullopt if the launcher's variables are not set. Throws if only one of them is.
std::optional<LaunchedRank> read(LauncherVariables const& launcher, Variables const& variable) {
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
  LaunchedRank launched{.launcher = launcher.name,
                        .variables = fmt::format("{}={} {}={}", launcher.rank, rank, launcher.world, world),
                        .rank = number_in(variable, launcher.rank, 0)->value,
                        .world = number_in(variable, launcher.world, 1)->value,
                        .local_rank = std::nullopt,
                        .starts_mpi = launcher.starts_mpi,
                        .kind = launcher.kind};
  if (launched.rank >= launched.world) {
    throw ConfigError{fmt::format("{} in the environment: the rank must be less than the world", launched.variables)};
  }
  auto const local_rank = number_in(variable, launcher.local_rank, 0);
  auto const local_world = number_in(variable, launcher.local_world, 1);
  if (local_rank && local_rank->value >= (local_world ? local_world->value : launched.world)) {
    throw ConfigError{fmt::format("{} {} in the environment: the local rank must be less than the number of ranks{}",
                                  local_rank->words, local_world ? local_world->words : launched.variables,
                                  local_world ? " on its machine" : "")};
  }
  if (local_world && local_world->value > launched.world) {
    throw ConfigError{fmt::format("{} {} in the environment: one machine cannot have more ranks than the world",
                                  launched.variables, local_world->words)};
  }
  if (local_rank) {
    launched.local_rank = local_rank->value;
  }
  if (local_world) {
    launched.local_world = local_world->value;
  }
  return launched;
}

[[nodiscard]] bool is_same(LaunchedRank const& a, LaunchedRank const& b) noexcept {
  return a.rank == b.rank && a.world == b.world;
}

/// srun --mpi=pmi2 sets PMI's variables as well, but also has the local ranks and the step's machines. MPICH's own
/// launcher sets the local rank itself.
[[nodiscard]] bool is_srun(LaunchedRank const& from_mpich, std::optional<LaunchedRank> const& from_slurm) noexcept {
  return from_slurm && is_same(from_mpich, *from_slurm) && !from_mpich.local_rank;
}

[[noreturn]] void throw_contradiction(LaunchedRank const& a, LaunchedRank const& b) {
  throw ConfigError{fmt::format("{} and {} contradict each other in the environment: unset those that are left over",
                                a.variables, b.variables)};
}

/// Compares the variables of torchrun, which people also set by hand, with those of MPI's own launchers and srun.
void check_torchrun(LaunchedRank const& from_torchrun, Variables const& variable) {
  auto const from_slurm = variable(slurm.world) == nullptr ? std::nullopt : read(slurm, variable);
  if (auto const from_open_mpi = read(open_mpi, variable); from_open_mpi && !is_same(from_torchrun, *from_open_mpi)) {
    throw_contradiction(from_torchrun, *from_open_mpi);
  }
  auto const from_mpich = read(mpich, variable);
  bool const pmi_is_srun = from_mpich && from_slurm && is_same(*from_mpich, *from_slurm);  // srun uses PMI too
  if (from_mpich && !pmi_is_srun && !is_same(from_torchrun, *from_mpich)) {
    throw_contradiction(from_torchrun, *from_mpich);
  }
  // torchrun in a step of srun numbers its own ranks. But a RANK that a batch script exports is the same in all tasks.
  if (from_slurm && variable("TORCHELASTIC_RUN_ID") == nullptr && from_torchrun.world == from_slurm->world &&
      from_torchrun.rank != from_slurm->rank) {
    throw_contradiction(from_torchrun, *from_slurm);
  }
}

}  // namespace

char const* local_rank_variable(Launcher launcher) noexcept {
  switch (launcher) {
    case Launcher::torchrun: return torchrun.local_rank;
    case Launcher::open_mpi: return open_mpi.local_rank;
    case Launcher::mpich: return mpich.local_rank;
    case Launcher::slurm: return slurm.local_rank;
  }
  return torchrun.local_rank;
}

std::int64_t whole_number(std::string_view name, std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw ConfigError{
        fmt::format("{}='{}' in the environment: allowed are whole numbers from {} to {}", name, text, least, most)};
  }
  return value;
}

std::optional<LaunchedRank> find_launched_rank(Variables const& variable) {
  auto const from_torchrun = read(torchrun, variable);
  if (from_torchrun) {
    check_torchrun(*from_torchrun, variable);
  }
  if (auto const from_open_mpi = read(open_mpi, variable)) {
    return from_open_mpi;
  }
  if (from_torchrun) {
    return from_torchrun;
  }
  auto const from_mpich = read(mpich, variable);
  auto from_slurm = variable(slurm.world) == nullptr ? std::nullopt : read(slurm, variable);
  if (from_slurm) {
    from_slurm->starts_mpi = variable("PMIX_RANK") != nullptr;  // srun --mpi=pmix
  }
  if (from_mpich && !is_srun(*from_mpich, from_slurm)) {
    return from_mpich;
  }
  if (from_mpich) {
    from_slurm->starts_mpi = true;
  }
  return from_slurm;
}

namespace {

bool has_threads(Transport transport) noexcept { return traits_of(transport).ranks == RankKind::threads; }

}  // namespace

Variables without_lone_world(Variables variable, LaunchOptions const& options) {
  bool const asks_for_threads =
      options.transport ? has_threads(*options.transport) : variable(thread_ranks_variable) != nullptr;
  if (!asks_for_threads || variable(torchrun.rank) != nullptr) {
    return variable;
  }
  return [variable = std::move(variable)](char const* name) {
    return std::string_view{name} == torchrun.world ? nullptr : variable(name);
  };
}

LaunchOptions with_thread_ranks(LaunchOptions options, std::optional<LaunchedRank> const& launched,
                                Variables const& variable) {
  constexpr auto name = thread_ranks_variable;
  char const* const text = variable(name);
  if (text == nullptr) {
    return options;
  }
  auto const ranks = static_cast<int>(whole_number(name, text, 1, most_thread_ranks));
  auto const words = fmt::format("{}={}", name, ranks);
  if (launched && launched->world > 1) {
    throw ConfigError{fmt::format("{} and {} contradict each other in the environment: unset those that are left over",
                                  words, launched->variables)};
  }
  if (options.transport && !has_threads(*options.transport)) {
    throw ConfigError{
        fmt::format("{} in the environment: ranks must be threads, but the program asks for transport {}: start it "
                    "with zeroth run --transport {}, or ask for local",
                    words, name_of(*options.transport), name_of(*options.transport))};
  }
  options.thread_ranks = ranks;
  options.transport = options.transport.value_or(Transport::local);
  return options;
}

void check_spin_variable(Variables const& variable) {
  char const* const value = variable(spin_variable);
  if (value != nullptr && value != std::string_view{spin_never}) {
    throw ConfigError{fmt::format("{}='{}' in the environment: allowed is {}", spin_variable, value, spin_never)};
  }
}

namespace {

/// Throws if the requested transport, or the one that GPUs need, is not possible.
void check_asked_for(Transport asked_for, LaunchOptions const& options, std::optional<LaunchedRank> const& launched,
                     bool has_mpi) {
  auto const& transport = traits_of(asked_for);
  if (!transport.on_host && options.device != DeviceKind::cuda) {
    throw ConfigError{
        fmt::format("transport {} was asked for, but LaunchOptions::device is not cuda: it needs GPU memory; ask for "
                    "tcp, mpi or local, or set the device",
                    transport.name)};
  }
  if (!transport.start.empty() && !launched) {
    throw ConfigError{fmt::format("transport {} was asked for, but no launcher started this process: {}",
                                  transport.name, transport.start)};
  }
  if (transport.ranks == RankKind::threads && launched && launched->world > 1) {
    throw ConfigError{
        fmt::format("transport {} was asked for, but {} started this process as rank {} of {} ({}): ask for {}, or "
                    "start a single process",
                    transport.name, launched->launcher, launched->rank, launched->world, launched->variables,
                    options.device == DeviceKind::cuda ? "nccl"
                    : has_mpi                          ? "tcp or mpi"
                                                       : "tcp")};
  }
  if (asked_for == Transport::mpi && !has_mpi) {
    throw ConfigError{
        "transport mpi was asked for, but this library was built without it: build it where CMake finds MPI, or ask "
        "for tcp or local"};
  }
}

/// The transport if none is requested.
Transport usual_transport(bool on_gpus, std::optional<LaunchedRank> const& launched, bool has_mpi) noexcept {
  bool const several = launched && launched->world > 1;
  if (several && on_gpus) {
    return Transport::nccl;
  }
  // One process with a launcher is one rank, as with any other number of processes.
  bool const by_mpi = has_mpi && launched && launched->starts_mpi && !on_gpus;
  return by_mpi ? Transport::mpi : several ? Transport::tcp : Transport::local;
}

}  // namespace

LaunchPlan plan_launch(LaunchOptions const& options, std::optional<LaunchedRank> const& launched, bool has_mpi) {
  if (options.thread_ranks < 1) {
    throw ConfigError{fmt::format("LaunchOptions::thread_ranks is {}; allowed: 1 or more", options.thread_ranks)};
  }
  if (options.restarts < 0) {
    throw ConfigError{fmt::format("LaunchOptions::restarts is {}; allowed: 0 or more", options.restarts)};
  }
  if (options.stop_grace.count() < 0) {
    throw ConfigError{
        fmt::format("LaunchOptions::stop_grace is {} ms; allowed: 0 or more", options.stop_grace.count())};
  }
  if (options.join_timeout.count() < 1) {
    throw ConfigError{
        fmt::format("LaunchOptions::join_timeout is {} ms; allowed: 1 or more", options.join_timeout.count())};
  }
  auto const transport =
      options.transport.value_or(usual_transport(options.device == DeviceKind::cuda, launched, has_mpi));
  check_asked_for(transport, options, launched, has_mpi);
  if (!has_threads(transport) || (launched && !options.transport)) {
    return {transport, 1};
  }
  if (options.thread_ranks > most_thread_ranks) {
    throw ConfigError{fmt::format(
        "LaunchOptions::thread_ranks is {}: allowed are 1 to {} in one process; start more ranks as processes",
        options.thread_ranks, most_thread_ranks)};
  }
  return {transport, options.thread_ranks};
}

void check_agreement(LaunchedRank const& launched, int mpi_rank, int mpi_world) {
  if (launched.rank == mpi_rank && launched.world == mpi_world) {
    return;
  }
  throw ConfigError{
      fmt::format("{} ({}), but MPI sees rank {} in a world of {}: processes communicate by MPI here, so start them "
                  "with mpirun -n {} "
                  "of the MPI that this library was built with, or with srun --mpi=pmix",
                  launched.variables, launched.launcher, mpi_rank, mpi_world, launched.world)};
}

}  // namespace zeroth::comm
