// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: if one throws, is killed, freezes or diverges, all of them end.
#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "faults/fault_run.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr int world = 3;

void check_failed(Ending const& ending) {
  CHECK(ending.in_time);
  CHECK(ending.status != 0);
}

/// mpirun ends the processes before it ends itself, but they may still be exiting.
bool is_gone(int process) {
  for (int i = 0; i < 6000; ++i) {
    if (::kill(process, 0) != 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

void check_all_gone(std::string const& output) {
  for (int rank = 0; rank < world; ++rank) {
    CAPTURE(rank);
    CHECK(is_gone(process_of(output, rank)));
  }
}

TEST_CASE("processes without faults end with status 0") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"fine"}, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  CHECK(count_of(child.output(), "launch has returned.") == world);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("mpirun returns the exit status of the rank that failed first") {
  auto const [scenario, status] = GENERATE(table<std::string, int>({{"wrong", 2}, {"throw", 1}}));
  Folder const folder;
  Child child{fault_program_under_mpi(world, {scenario}, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == status);
}

TEST_CASE("mpirun returns the exit status of an error before MPI starts") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"fine", "--stop-grace", "-1"}, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 2);
}

TEST_CASE("mpirun returns the status of processes that save and end on SIGUSR1") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"save_when_stopped"}, folder)};
  REQUIRE(child.wait_for("is under way.", world));
  child.send(SIGUSR1);  // mpirun passes it on
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 75);
  CHECK(count_of(child.output(), "launch has returned.") == world);
  CHECK(count_of(child.output(), "SIGUSR1: all ranks stop at the next step") == world);
}

TEST_CASE("an exception in one process ends all, and is printed") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"throw"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(count_of(child.output(), "zeroth: [rank 1/3] the data are gone\n") == 1);
  CHECK(count_of(child.output(), "the data are gone") == 1);
  CHECK(problem_of_flights(folder.path(), {0, 1, 2}, world, "rank 1 failed: the data are gone") == "");
  check_all_gone(child.output());
}

TEST_CASE("flight records of processes are in the folder that the stage file names") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"flights"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(problem_of_flights(folder / "flights/of this job", {1}, world, "rank 1 failed: the data are gone") == "");
  CHECK(problem_of_flights(folder / "flights/of this job", {0, 2}, world, "the engine of rank 1 ended by") == "");
  CHECK(folder.contents() == "flights ");
}

TEST_CASE("processes get the same error if a file cannot be saved or loaded, and continue") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"files"}, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  int const all = 2 * world;  // each rank at two stages
  CHECK(count_of(child.output(), "save_weights() failed and changed nothing: rank 0: ") == all);
  CHECK(count_of(child.output(), "none/weights: cannot be written: No such file or directory") == all);
  CHECK(count_of(child.output(),
                 "load_weights() failed and changed nothing: nowhere: cannot be opened: No such file") == all);
  CHECK(count_of(child.output(),
                 "load_weights() failed and changed nothing: rank 1: not here: cannot be opened: No such") == all);
  CHECK(count_of(child.output(), "launch has returned.") == world);
  CHECK(folder.contents() == "weights ");
}

TEST_CASE("a failure that processes catch is reported, and fails the job") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"swallow"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(), Contains("the engine of rank 1 ended by an error: [rank 1/3] "));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2}, world, "the engine of rank 1 ended by an error") == "");
}

TEST_CASE("a process without free threads or memory ends all with the reason") {
  for (auto const& [scenario, words] : {std::pair{"threads", "cannot start a thread for stream 'gather': "},
                                        std::pair{"memory", "the process is out of memory: run fewer ranks"}}) {
    Folder const folder;
    Child child{fault_program_under_mpi(world, {scenario}, folder)};
    check_failed(child.wait());
    CHECK_THAT(child.output(), Contains(std::string{"zeroth: [rank 1/3] "} + words));
  }
}

TEST_CASE("a process that is killed ends all, and their flight records say that it is gone") {
  Folder const folder;
  auto options = fault_program_under_mpi(world, {"steps"}, folder);
  options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "2"}};  // asking the other ranks takes a fraction of a
                                                                        // second
  Child child{options};
  REQUIRE(child.wait_for("is under way.", world));
  ::kill(process_of(child.output(), 1), SIGKILL);
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(problem_of_flights(folder.path(), {0, 2}, world, "no answer from rank 1") == "");
  check_all_gone(child.output());
}

TEST_CASE("a process that exits in the middle of a job ends all") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"exit"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(problem_of_flights(folder.path(), {0, 2}, world, "") == "");
  check_all_gone(child.output());
}

TEST_CASE("a stopped process is detected, named and ended") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"steps", "--timeout", "2000"}, folder)};
  REQUIRE(child.wait_for("is under way.", world));
  int const stopped = process_of(child.output(), 1);
  ::kill(stopped, SIGSTOP);
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(),
             Contains(" waited ") && Contains("all_reduce (step of unit 'h.3', 2 fp32)") &&
                 Contains("missing: rank 1, which does not answer: it is frozen, gone or cannot be reached") &&
                 Contains("was last seen in all_reduce (step of unit 'h.3')"));
  CHECK(problem_of_flights(folder.path(), {0, 2}, world, "missing: rank 1") == "");
  CHECK(is_gone(stopped));
  ::kill(stopped, SIGKILL);  // in case it is still there
}

TEST_CASE("a process that is busy elsewhere is detected, and reports its position") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"freeze", "--timeout", "2000"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(), Contains("missing: rank 1, which last started all_reduce (step of unit 'h.3', 2 fp32), "
                                      "transaction 3 of communicator 'world',") &&
                                 Contains("and finished it"));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2}, world, "missing: rank 1") == "");
  check_all_gone(child.output());
}

TEST_CASE("processes that do different things get one error") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"out_of_order"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(), Contains("rank 0 in its transaction 4 does all_reduce (step of unit 'h.3', 2 fp32)") &&
                                 Contains("rank 1 in its transaction 4 does broadcast (forward of unit 'h.4', 1 fp32"));
  CHECK(count_of(child.output(), "do different things") == 1);
  CHECK(problem_of_flights(folder.path(), {0, 1, 2}, world, "do different things") == "");
}

/// The runs of one test wait at the same time.
struct Run {
  explicit Run(std::vector<std::string> const& arguments, int ranks = world)
      : child{fault_program_under_mpi(ranks, arguments, folder)} {}
  std::string failed() {
    check_failed(child.wait());
    return child.output();
  }
  Folder folder;
  Child child;
};

TEST_CASE("different uses of engines by processes are reported, at stages with and without gathers") {
  std::array<Run, 2> order{Run{{"order_0"}}, Run{{"order_3"}}};  // also at stage 3, because all units are prefetched
                                                                 // here
  std::array<Run, 2> evaluation{Run{{"evaluation_0"}}, Run{{"evaluation_3"}}};
  for (auto& each : order) {
    CHECK_THAT(each.failed(), Contains("ranks took different paths in step 2: as call 2 of the step, rank 0 made") &&
                                  Contains("rank 1 made forward of unit \"block1\""));
  }
  for (auto& each : evaluation) {
    CHECK_THAT(each.failed(), Contains("rank 0") && Contains("rank 1") && Contains("evaluation"));
  }
}

TEST_CASE("a fault of processes of one group ends all with the group's name") {
  Folder const folder;
  auto options = fault_program_under_mpi(4, {"die_in_a_group"}, folder);
  options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "2"}};
  Child killed{options};
  Run thrown{{"throw_in_a_group"}, 4};
  Run frozen{{"freeze_in_a_group", "--grace", "1000"}, 4};
  Run diverged{{"diverge_in_a_group"}, 4};
  CHECK_THAT(thrown.failed(), Contains("zeroth: [rank 3/4] the data are gone\n"));
  CHECK_THAT(frozen.failed(), Contains("rank 2 (of 'gather-group': ranks 2 and 3) waited ") &&
                                  Contains("all_gather (forward of unit 'block0'") && Contains("missing: rank 3"));
  CHECK_THAT(diverged.failed(), Contains("rank 2 (of 'gather-group': ranks 2 and 3) in its transaction") &&
                                    Contains("rank 3 (of 'gather-group': ranks 2 and 3) in its transaction"));
  check_failed(killed.wait());
  CHECK(problem_of_flights(
            folder.path(), {0, 1, 2}, 4,
            "no answer from rank 3 (of 'gather-group': ranks 2 and 3; 'reduce-replicas': ranks 1 and 3)") == "");
}

TEST_CASE("a process of a pipeline's stage that throws, freezes or is killed ends those of all stages") {
  Folder const folder;
  auto options = fault_program_under_mpi(3, {"die_in_stage_1"}, folder);
  options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "2"}};
  Child killed{options};  // both children wait at the same time
  Run thrown{{"throw_in_stage_1"}};
  Run frozen{{"freeze_in_stage_1", "--grace", "1000"}};
  CHECK_THAT(thrown.failed(), Contains("zeroth: [rank 1/3] the data are gone\n"));
  CHECK_THAT(frozen.failed(), Contains(" waited ") && Contains("of unit 'layer") && Contains("communicator '"));
  check_failed(killed.wait());
  CHECK(problem_of_flights(folder.path(), {0, 2}, 3, "(of '") == "");  // the communicator of a channel
}

TEST_CASE("a worker or a parameter server that throws, freezes or is killed ends all") {
  for (auto const& [role, rank] : {std::pair{"worker", 1}, std::pair{"server", 2}}) {
    INFO(role);
    Folder const folder;
    auto options = fault_program_under_mpi(3, {fmt::format("die_as_{}", role)}, folder);
    options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "2"}};
    Child killed{options};
    Run thrown{{fmt::format("throw_as_{}", role)}};
    Run frozen{{fmt::format("freeze_as_{}", role), "--grace", "1000"}};
    CHECK_THAT(thrown.failed(), Contains(fmt::format("zeroth: [rank {}/3] the data are gone\n", rank)));
    CHECK_THAT(frozen.failed(), Contains(" waited ") && Contains(fmt::format("missing: rank {}", rank)));
    check_failed(killed.wait());
    std::vector<int> others{0, 1, 2};
    std::erase(others, rank);
    CHECK(problem_of_flights(folder.path(), others, 3, fmt::format("no answer from rank {}", rank)) == "");
  }
}

TEST_CASE("a process that throws, freezes or is killed before sums of shared parameters are exchanged ends all") {
  Folder const folder;
  auto options = fault_program_under_mpi(3, {"die_before_ties"}, folder);
  options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "2"}};
  Child killed{options};  // both children wait at the same time
  Run thrown{{"throw_before_ties"}};
  Run frozen{{"freeze_before_ties", "--grace", "1000"}};
  CHECK_THAT(thrown.failed(), Contains("zeroth: [rank 0/3] the data are gone\n"));
  CHECK_THAT(frozen.failed(),
             Contains(" waited ") && Contains("(add ties of unit 'layer0.w") && Contains("missing: rank 0"));
  check_failed(killed.wait());
}

TEST_CASE("a process that is killed while others wait for its matrix ends all") {
  Folder const folder;
  auto options = fault_program_under_mpi(world, {"die_in_a_product"}, folder);
  options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "2"}};
  Child killed{options};
  check_failed(killed.wait());
  CHECK(problem_of_flights(folder.path(), {0, 2}, world, "no answer from rank 1") == "");
}

TEST_CASE("a process of a tensor rank that throws, freezes or is killed before a verb or a sum of gradients ends all") {
  for (auto const& [place, words] :
       {std::pair{"leave", "reduce_scatter (leave(), 8 fp32)"},
        std::pair{"parts", "all_reduce (add parts of unit 'block (partial)', 128 fp32)"}}) {
    INFO(place);
    auto const scenario = [where = place](char const* fault) { return fmt::format("{}_before_{}", fault, where); };
    Folder const folder;
    auto options = fault_program_under_mpi(world, {scenario("die")}, folder);
    options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "2"}};
    Child killed{options};  // they wait at the same time
    Run thrown{{scenario("throw")}};
    Run frozen{{scenario("freeze"), "--grace", "1000"}};
    CHECK_THAT(thrown.failed(), Contains("zeroth: [rank 1/3] the data are gone\n"));
    CHECK_THAT(frozen.failed(), Contains(" waited ") && Contains(words) && Contains("missing: rank 1"));
    check_failed(killed.wait());
    CHECK(problem_of_flights(folder.path(), {0, 2}, world, "no answer from rank 1") == "");
  }
}

TEST_CASE("a process that is stopped before MPI starts is detected within the timeout, and ended") {
  Folder const folder;
  Child child{fault_program_under_mpi(2, {"fine", "--stopped", "1", "--join-timeout", "500"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(), Contains("zeroth: [rank 0/2] MPI_Init_thread did not end within 500 ms: it waits for all "
                                      "2 ranks, and at least one has not arrived"));
  CHECK(is_gone(process_of(child.output(), 1)));
  ::kill(process_of(child.output(), 1), SIGKILL);  // in case it is still there
}

TEST_CASE("a process that ends early is detected") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"leave"}, folder)};
  check_failed(child.wait());
  CHECK_THAT(child.output(), Contains("rank 1 left"));
}

TEST_CASE("SIGINT or SIGTERM to one process stops all at the same step") {
  auto const signal = GENERATE(SIGINT, SIGTERM);
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"until_stopped"}, folder)};
  REQUIRE(child.wait_for("is under way.", world));
  ::kill(process_of(child.output(), 2), signal);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  auto const words = child.output().substr(child.output().find(" stops at step "));
  auto const step = words.substr(0, words.find('.') + 1);
  CHECK(count_of(child.output(), step) == world);
  CHECK(folder.contents() == "");
}

TEST_CASE("a process that does not stop is terminated after the grace of SIGTERM, and the others with it") {
  Folder const folder;
  Child child{fault_program_under_mpi(world, {"freeze_when_stopped", "--stop-grace", "200"}, folder)};
  REQUIRE(child.wait_for("is under way.", world));
  ::kill(process_of(child.output(), 1), SIGTERM);
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(), Contains("rank 1 did not stop within 200 ms of SIGTERM, and is terminated"));
  CHECK(problem_of_flight(folder.path(), 1, world, "did not stop within") == "");
  check_all_gone(child.output());
}

TEST_CASE("SIGTERM to mpirun leaves flight records") {
  Folder const folder;
  auto options = fault_program_under_mpi(world, {"steps"}, folder);
  options.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "4"}};  // 1 s is too short on a busy machine
  Child child{options};
  REQUIRE(child.wait_for("is under way.", world));
  child.send(SIGTERM);
  auto const ending = child.wait();
  CHECK(ending.in_time);
  CHECK(problem_of_flights(folder.path(), {0, 1, 2}, world, "") == "");
  check_all_gone(child.output());
}

TEST_CASE("threads are rejected if mpirun started several processes") {
  Folder const folder;
  Child child{fault_program_under_mpi(2, {"fine", "--comm", "local"}, folder)};
  check_failed(child.wait());
  CHECK_THAT(child.output(), Contains("transport local was asked for, but mpirun (Open MPI) started this process") &&
                                 Contains("OMPI_COMM_WORLD_SIZE=2"));
}

TEST_CASE("variables of a launcher that MPI does not know are rejected") {
  Folder const folder;
  auto options = fault_program({"fine", "--comm", "mpi"}, folder);
  options.environment = {{"RANK", "1"}, {"WORLD_SIZE", "4"}};
  Child child{options};
  auto const ending = child.wait();
  CHECK(ending.status == 2);
  CHECK_THAT(child.output(), Contains("RANK=1 WORLD_SIZE=4 (torchrun), but MPI sees rank 0 in a world of 1") &&
                                 Contains("mpirun -n 4"));
}

}  // namespace
}  // namespace zeroth::testing
