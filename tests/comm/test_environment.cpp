// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/environment.hpp"

#include <string>
#include <vector>

#include "comm/launch/placing.hpp"
#include "comm/made_up_environment.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;

std::string error_of(Environment const& environment) {
  return testing::thrown<ConfigError>([&] { return find_launched_rank(from(environment)); });
}

std::string error_of(LaunchOptions const& options, std::optional<LaunchedRank> const& launched, bool has_mpi) {
  return testing::thrown<ConfigError>([&] { return plan_launch(options, launched, has_mpi); });
}

Environment const torchrun{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}};
Environment const open_mpi{
    {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
Environment const mpich{{"PMI_RANK", "3"}, {"PMI_SIZE", "6"}};
Environment const srun{
    {"SLURM_PROCID", "7"}, {"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_LOCALID", "3"}, {"SLURM_NTASKS", "16"}};
Environment const srun_of_8{{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}};
Environment const batch_script{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}, {"SLURM_LOCALID", "0"}};

LaunchedRank placed(std::string const& launcher, int rank, int world, bool starts_mpi) {
  return {.launcher = launcher, .variables = "RANK=x", .rank = rank, .world = world, .starts_mpi = starts_mpi};
}

TEST_CASE("launchers are recognised by their variables") {
  struct Row {
    char const* what;
    Environment environment;
    std::string launcher;  // empty: none
    int rank, world, local_rank;
  };
  std::vector<Row> const rows{
      {"nothing", {}, "", 0, 0, 0},
      {"torchrun", torchrun, "torchrun", 5, 8, 1},
      {"torchrun, alone", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, "torchrun", 0, 1, -1},
      {"mpirun", open_mpi, "mpirun (Open MPI)", 2, 4, 0},
      {"mpiexec", mpich, "mpiexec (MPICH)", 3, 6, -1},
      {"srun", srun, "srun", 7, 16, 3},
      {"srun --mpi=pmi2", srun + Environment{{"PMI_RANK", "7"}, {"PMI_SIZE", "16"}}, "srun", 7, 16, 3},
      {"mpiexec in a step of srun, one rank for each process of srun's",
       mpich + Environment{{"MPI_LOCALRANKID", "0"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "6"}},
       "mpiexec (MPICH)", 3, 6, 0},
      {"mpiexec in a step of srun with fewer processes",
       mpich + Environment{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}},
       "mpiexec (MPICH)", 3, 6, -1},
      {"a batch script is no rank", batch_script, "", 0, 0, 0},
      {"mpirun in a batch script", open_mpi + batch_script, "mpirun (Open MPI)", 2, 4, 0},
      {"mpirun in a step of srun", open_mpi + srun, "mpirun (Open MPI)", 2, 4, 0},
      {"torchrun in a step of srun", torchrun + srun, "torchrun", 5, 8, 1},
      {"mpirun in a step with PMI", open_mpi + Environment{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, "mpirun (Open MPI)",
       2, 4, 0},
      {"mpirun with variables for torch", open_mpi + Environment{{"RANK", "2"}, {"WORLD_SIZE", "4"}},
       "mpirun (Open MPI)", 2, 4, 0},
      {"a local rank alone says nothing", {{"LOCAL_RANK", "1"}}, "", 0, 0, 0},
      {"torchrun in a step of srun that speaks PMI",
       torchrun + srun + Environment{{"PMI_RANK", "7"}, {"PMI_SIZE", "16"}}, "torchrun", 5, 8, 1},
      {"torchrun as often as srun", torchrun + srun_of_8 + Environment{{"TORCHELASTIC_RUN_ID", "x"}}, "torchrun", 5, 8,
       1},
      {"variables by hand that say what srun says", Environment{{"RANK", "3"}, {"WORLD_SIZE", "8"}} + srun_of_8,
       "torchrun", 3, 8, -1},
  };
  for (auto const& row : rows) {
    CAPTURE(row.what);
    auto const launched = find_launched_rank(from(row.environment));
    REQUIRE(launched.has_value() == !row.launcher.empty());
    if (launched) {
      CHECK(launched->launcher == row.launcher);
      CHECK(launched->rank == row.rank);
      CHECK(launched->world == row.world);
      CHECK(launched->local_rank.value_or(-1) == row.local_rank);
    }
  }
}

TEST_CASE("the number of ranks per machine is taken from launchers that give it") {
  auto const of = [](Environment const& environment) { return find_launched_rank(from(environment)); };
  CHECK(of(torchrun)->local_world == std::nullopt);
  CHECK(of(torchrun + Environment{{"LOCAL_WORLD_SIZE", "4"}})->local_world == 4);
  CHECK(of(open_mpi + Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})->local_world == 1);
  CHECK(of(mpich + Environment{{"MPI_LOCALNRANKS", "2"}})->local_world == 2);
  CHECK(of(srun)->kind == Launcher::slurm);
  CHECK(of(mpich)->kind == Launcher::mpich);
  CHECK_FALSE(of(srun)->starts_mpi);
  CHECK(of(srun + Environment{{"PMI_RANK", "7"}, {"PMI_SIZE", "16"}})->starts_mpi);
}

TEST_CASE("contradictory and malformed variables are rejected by name") {
  struct Row {
    Environment environment;
    std::vector<std::string> words;
  };
  std::vector<Row> const rows{
      {{{"RANK", "1"}}, {"RANK is set", "WORLD_SIZE is not", "torchrun"}},
      {{{"WORLD_SIZE", "4"}}, {"WORLD_SIZE is set", "RANK is not"}},
      {{{"RANK", "one"}, {"WORLD_SIZE", "4"}}, {"RANK='one'", "whole numbers from 0"}},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "4"}}, {"RANK='-1'", "whole numbers from 0"}},
      {{{"RANK", "1 "}, {"WORLD_SIZE", "4"}}, {"RANK='1 '"}},
      {{{"RANK", ""}, {"WORLD_SIZE", "4"}}, {"RANK=''"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE='0'", "whole numbers from 1"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, {"WORLD_SIZE='99999999999'"}},
      {{{"RANK", "4"}, {"WORLD_SIZE", "4"}}, {"RANK=4 WORLD_SIZE=4", "less than the world"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "x"}}, {"LOCAL_RANK='x'"}},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, {"OMPI_COMM_WORLD_RANK is set", "OMPI_COMM_WORLD_SIZE is not"}},
      {{{"PMI_RANK", "1"}}, {"PMI_RANK is set", "PMI_SIZE is not"}},
      {{{"SLURM_STEP_NUM_TASKS", "4"}}, {"SLURM_STEP_NUM_TASKS is set", "SLURM_PROCID is not"}},
      {torchrun + open_mpi, {"RANK=5 WORLD_SIZE=8", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", "contradict"}},
      {open_mpi + Environment{{"RANK", "1"}, {"WORLD_SIZE", "4"}}, {"RANK=1 WORLD_SIZE=4", "contradict"}},
      {torchrun + mpich, {"RANK=5 WORLD_SIZE=8", "PMI_RANK=3 PMI_SIZE=6", "contradict"}},
      {torchrun + srun_of_8, {"RANK=5 WORLD_SIZE=8", "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8", "contradict"}},
      {torchrun + Environment{{"LOCAL_WORLD_SIZE", "1"}}, {"LOCAL_RANK=1 LOCAL_WORLD_SIZE=1", "on its machine"}},
      {torchrun + Environment{{"LOCAL_WORLD_SIZE", "9"}}, {"WORLD_SIZE=8 LOCAL_WORLD_SIZE=9", "than the world"}},
      {torchrun + Environment{{"LOCAL_WORLD_SIZE", "two"}}, {"LOCAL_WORLD_SIZE='two'"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "4"}}, {"LOCAL_RANK=4 RANK=0 WORLD_SIZE=4", "less than"}},
  };
  for (auto const& row : rows) {
    auto const error = error_of(row.environment);
    CAPTURE(error);
    for (auto const& word : row.words) {
      CHECK_THAT(error, Contains(word));
    }
  }
}

TEST_CASE("ranks are a launcher's processes, or threads if there is no launcher") {
  auto const mpirun_of_4 = placed("mpirun (Open MPI)", 1, 4, true);
  auto const mpirun_of_1 = placed("mpirun (Open MPI)", 0, 1, true);
  auto const torchrun_of_4 = placed("torchrun", 1, 4, false);
  auto const torchrun_of_1 = placed("torchrun", 0, 1, false);
  struct Row {
    char const* what;
    std::optional<LaunchedRank> launched;
    std::optional<Transport> asked;
    bool has_mpi;
    Transport transport;
    int thread_ranks;
  };
  using enum Transport;
  std::vector<Row> const rows{
      {"alone", std::nullopt, std::nullopt, true, local, 4},
      {"alone, local", std::nullopt, local, true, local, 4},
      {"alone, mpi", std::nullopt, mpi, true, mpi, 1},
      {"alone, without MPI", std::nullopt, std::nullopt, false, local, 4},
      {"mpirun wins over threads", mpirun_of_4, std::nullopt, true, mpi, 1},
      {"mpirun, mpi", mpirun_of_4, mpi, true, mpi, 1},
      {"mpirun of one process", mpirun_of_1, std::nullopt, true, mpi, 1},
      {"mpirun of one process, local", mpirun_of_1, local, true, local, 4},
      {"mpirun of one process, without MPI", mpirun_of_1, std::nullopt, false, local, 1},
      {"mpirun, without MPI", mpirun_of_4, std::nullopt, false, tcp, 1},
      {"mpirun, tcp", mpirun_of_4, tcp, true, tcp, 1},
      {"torchrun", torchrun_of_4, std::nullopt, true, tcp, 1},
      {"torchrun, without MPI", torchrun_of_4, std::nullopt, false, tcp, 1},
      {"torchrun, mpi", torchrun_of_4, mpi, true, mpi, 1},
      {"torchrun of one process, tcp", torchrun_of_1, tcp, true, tcp, 1},
      {"torchrun of one process", torchrun_of_1, std::nullopt, true, local, 1},
      {"torchrun of one process, mpi", torchrun_of_1, mpi, true, mpi, 1},
  };
  for (auto const& row : rows) {
    CAPTURE(row.what);
    auto const plan = plan_launch({.thread_ranks = 4, .transport = row.asked}, row.launched, row.has_mpi);
    CHECK(plan.transport == row.transport);
    CHECK(plan.thread_ranks == row.thread_ranks);
  }
}

TEST_CASE("processes on GPUs communicate by NCCL") {
  auto const mpirun_of_4 = placed("mpirun (Open MPI)", 1, 4, true);
  auto const mpirun_of_1 = placed("mpirun (Open MPI)", 0, 1, true);
  auto const plan = [](std::optional<LaunchedRank> const& launched, std::optional<Transport> asked) {
    return plan_launch({.thread_ranks = 4, .transport = asked, .device = DeviceKind::cuda}, launched, true);
  };
  CHECK(plan(mpirun_of_4, std::nullopt).transport == Transport::nccl);
  CHECK(plan(mpirun_of_1, Transport::nccl).transport == Transport::nccl);
  CHECK(plan(mpirun_of_1, std::nullopt).transport == Transport::local);
  CHECK(plan(mpirun_of_1, std::nullopt).thread_ranks == 1);
  CHECK(plan(std::nullopt, std::nullopt).thread_ranks == 4);
  auto const refused = [](LaunchOptions const& options, std::optional<LaunchedRank> const& launched) {
    return error_of(options, launched, true);
  };
  CHECK_THAT(refused({.transport = Transport::nccl}, mpirun_of_4), Contains("device is not cuda"));
  CHECK_THAT(refused({.transport = Transport::nccl, .device = DeviceKind::cuda}, std::nullopt),
             Contains("no launcher started this process"));
  CHECK_THAT(refused({.transport = Transport::local, .device = DeviceKind::cuda}, mpirun_of_4),
             Contains("ask for nccl"));
}

TEST_CASE("ranks are told not to spin by one value of ZEROTH_SPIN") {
  check_spin_variable(from({}));
  check_spin_variable(from({{"ZEROTH_SPIN", "never"}}));
  for (auto const* const value : {"", "no", "NEVER", "1"}) {
    CHECK_THAT(testing::thrown<ConfigError>([&] {
                 check_spin_variable(from({{"ZEROTH_SPIN", value}}));
               }),
               Contains(std::string{"ZEROTH_SPIN='"} + value + "' in the environment: allowed is never"));
  }
}

TEST_CASE("zeroth run sets how many threads are ranks") {
  auto const with = [](Environment const& environment, LaunchOptions const& options,
                       std::optional<LaunchedRank> const& launched) {
    return with_thread_ranks(options, launched, from(environment));
  };
  auto const threads = [&](std::optional<LaunchedRank> const& launched) {
    auto const options = with({{"ZEROTH_THREAD_RANKS", "7"}}, {.thread_ranks = 2}, launched);
    auto const plan = plan_launch(options, launched, true);
    return plan.transport == Transport::local ? plan.thread_ranks : -1;
  };
  CHECK(threads(std::nullopt) == 7);
  CHECK(threads(placed("srun", 0, 1, false)) == 7);
  CHECK(threads(placed("mpirun (Open MPI)", 0, 1, true)) == 7);
  CHECK(with({}, {.thread_ranks = 2}, std::nullopt).thread_ranks == 2);
  CHECK_FALSE(with({}, {}, std::nullopt).transport);

  auto const refused = [&](std::string const& value, LaunchOptions const& options,
                           std::optional<LaunchedRank> const& launched) {
    return testing::thrown<ConfigError>([&] { return with({{"ZEROTH_THREAD_RANKS", value}}, options, launched); });
  };
  for (auto const* const value : {"0", "-1", "4097", "four", "", "4 "}) {
    CHECK_THAT(refused(value, {}, std::nullopt),
               Contains(std::string{"ZEROTH_THREAD_RANKS='"} + value +
                        "' in the environment: allowed are whole numbers from 1 to 4096"));
  }
  CHECK_THAT(refused("7", {}, placed("mpirun (Open MPI)", 1, 4, true)),
             Contains("ZEROTH_THREAD_RANKS=7 and ") && Contains("contradict each other in the environment"));
  CHECK_THAT(refused("7", {.transport = Transport::mpi}, std::nullopt),
             Contains("ZEROTH_THREAD_RANKS=7 in the environment") && Contains("asks for transport mpi"));
}

TEST_CASE("launch options that cannot be run are rejected") {
  auto const mpirun = placed("mpirun (Open MPI)", 1, 4, true);
  CHECK_THAT(error_of({.thread_ranks = 0}, std::nullopt, true), Contains("thread_ranks is 0"));
  CHECK_THAT(error_of({.restarts = -1}, std::nullopt, true),
             Contains("LaunchOptions::restarts is -1; allowed: 0 or more"));
  CHECK_THAT(error_of({.thread_ranks = 100'000}, std::nullopt, true),
             Contains("thread_ranks is 100000: allowed are 1 to 4096 in one process"));
  CHECK_THAT(error_of({.join_timeout = std::chrono::milliseconds{0}}, std::nullopt, true),
             Contains("join_timeout is 0 ms; allowed: 1 or more"));
  CHECK_THAT(error_of({.transport = Transport::local}, mpirun, true),
             Contains("local was asked for") && Contains("mpirun (Open MPI)") && Contains("rank 1 of 4"));
  CHECK_THAT(error_of({.transport = Transport::mpi}, std::nullopt, false),
             Contains("mpi was asked for") && Contains("built without"));
  CHECK_THAT(error_of({.transport = Transport::mpi}, mpirun, false), Contains("built without"));
  CHECK_THAT(error_of({.transport = Transport::tcp}, std::nullopt, true),
             Contains("tcp was asked for") && Contains("no launcher started this process"));
}

TEST_CASE("ranks on GPUs are rejected if they cannot run, or would share a GPU without share_devices") {
  auto const refused = [](LaunchPlan const& plan, bool share, int gpus) {
    return testing::thrown<ConfigError>([&] { check_cuda(plan, share, gpus, "the driver is too old"); });
  };
  CHECK_THAT(refused({Transport::local, 1}, false, -1), Contains("built without CUDA"));
  CHECK_THAT(refused({Transport::mpi, 1}, false, 8), Contains("mpi, which works in host memory"));
  CHECK_THAT(refused({Transport::tcp, 1}, false, 8), Contains("tcp, which works in host memory"));
  CHECK_THAT(refused({Transport::local, 1}, false, 0), Contains("sees no GPU: the driver is too old"));
  CHECK_THAT(refused({Transport::local, 4}, false, 2),
             Contains("4 ranks on 2 GPUs: start at most 2, or set LaunchOptions::share_devices"));
  CHECK_THAT(refused({Transport::nccl, 1}, true, 1),
             Contains("LaunchOptions::share_devices is set") && Contains("nccl, which takes one rank for each GPU"));
  CHECK(refused({Transport::nccl, 1}, false, 1).empty());
  CHECK(refused({Transport::nccl, 1}, false, 0).empty());  // the rank tells the others
  CHECK(refused({Transport::local, 4}, true, 2).empty());
  CHECK(refused({Transport::local, 2}, false, 2).empty());
}

TEST_CASE("MPI and the launcher must see the same job") {
  LaunchedRank const torchrun_rank{.launcher = "torchrun", .variables = "RANK=1 WORLD_SIZE=4", .rank = 1, .world = 4};
  CHECK_NOTHROW(check_agreement(torchrun_rank, 1, 4));
  CHECK_THROWS_WITH(check_agreement(torchrun_rank, 0, 1), Contains("RANK=1 WORLD_SIZE=4 (torchrun)") &&
                                                              Contains("rank 0 in a world of 1") &&
                                                              Contains("mpirun -n 4") && Contains("srun --mpi=pmix"));
  CHECK_THROWS_AS(check_agreement(torchrun_rank, 2, 4), ConfigError);
}

TEST_CASE("a world size without a rank does not matter if threads are requested") {
  auto const found = [](Environment const& environment, LaunchOptions const& options) {
    return find_launched_rank(without_lone_world(from(environment), options)).has_value();
  };
  Environment const alone{{"WORLD_SIZE", "4"}};
  LaunchOptions threads;
  threads.transport = Transport::local;
  CHECK_FALSE(found(alone, threads));
  CHECK_FALSE(found(alone + Environment{{"ZEROTH_THREAD_RANKS", "2"}}, {}));
  CHECK(found(torchrun, threads));
  CHECK_THROWS_AS(found(alone, {}), ConfigError);
}

}  // namespace
}  // namespace zeroth::comm
