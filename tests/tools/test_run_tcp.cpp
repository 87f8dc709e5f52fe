// SPDX-License-Identifier: Apache-2.0
/// `zeroth run --transport tcp`: ranks are processes without MPI.
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include "run_support.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr int world = 3;

/// The program of tests/faults, which selects its transport by itself and uses `within` between ranks of a machine:
/// shared memory or the network.
Child::Options ranks(Words scenario, Folder const& folder, char const* within = "memory", int count = world) {
  scenario.insert(scenario.end(), {"--grace", "1000"});  // a killed rank does not report a reason
  auto options =
      zeroth_run_ranks({"--transport", "tcp", "--ranks", std::to_string(count), "--grace", "2"}, scenario, folder);
  options.environment["ZEROTH_WITHIN_MACHINE"] = within;
  return options;
}

std::string failed(Child& child) {
  auto const ending = child.wait();
  CHECK(ending.in_time);
  CHECK(ending.status != 0);
  return child.output();
}

int process_of(std::string const& output, int rank) {
  return number_behind(output, "rank " + std::to_string(rank) + " is process ");
}

TEST_CASE("processes over tcp end with status 0, or with the status of the rank that failed first") {
  auto const* const within = GENERATE("memory", "network");
  for (auto const& [scenario, status] : {std::pair{"fine", 0}, std::pair{"wrong", 2}, std::pair{"throw", 1}}) {
    Folder const folder;
    Child child{ranks({scenario}, folder, within)};
    auto const ending = child.wait();
    CAPTURE(scenario, within, child.output());
    CHECK(ending.status == status);
    CHECK(count_of(child.output(), "launch has returned.") == (status == 0 ? world : 0));
    CHECK(count_of(child.output(), "zeroth: [rank 1/3] the data are gone\n") == (status == 1 ? 1 : 0));
  }
}

TEST_CASE("a process over tcp that is killed or exits ends all ranks, which name it") {
  auto const* const within = GENERATE("memory", "network");
  Folder const folder;
  Child child{ranks({"steps"}, folder, within)};
  REQUIRE(child.wait_for("is under way.", world));
  ::kill(process_of(child.output(), 1), SIGKILL);
  CAPTURE(within);
  CHECK_THAT(failed(child), Contains("rank 1 on ") && Contains("ended without leaving the job"));
  Folder const other;
  Child exits{ranks({"exit"}, other, within)};
  CHECK_THAT(failed(exits), Contains("rank 1 on ") && Contains("ended without leaving the job"));
}

/// The runs of one test wait at the same time.
struct Run {
  Run(Words const& scenario, char const* within, int count = world) : child{ranks(scenario, folder, within, count)} {}
  Folder folder;
  Child child;
};

TEST_CASE("a process over tcp that is stopped, busy elsewhere or gone is named within the timeout") {
  auto const* const within = GENERATE("memory", "network");
  CAPTURE(within);
  Run steps{{"steps", "--timeout", "2000"}, within};
  Run freeze{{"freeze", "--timeout", "2000"}, within};
  Run leave{{"leave", "--timeout", "2000"}, within};
  Run out_of_order{{"out_of_order", "--timeout", "2000"}, within};
  REQUIRE(steps.child.wait_for("is under way.", world));
  int const stopped = process_of(steps.child.output(), 1);
  ::kill(stopped, SIGSTOP);
  CHECK_THAT(failed(steps.child), Contains(" waited ") && Contains("missing: rank 1, which does not answer"));
  CHECK(is_gone(stopped));
  CHECK_THAT(failed(freeze.child),
             Contains("missing: rank 1, which last started all_reduce (step of unit 'h.3', 2 fp32)"));
  CHECK_THAT(failed(leave.child), Contains("rank 1 left"));
  CHECK_THAT(failed(out_of_order.child),
             Contains("rank 1 in its transaction 4 does broadcast (forward of unit 'h.4', 1 fp32"));
}

TEST_CASE("a fault of processes of one group over tcp ends all with the group's name") {
  auto const* const within = GENERATE("memory", "network");
  CAPTURE(within);
  Run thrown{{"throw_in_a_group"}, within, 4};
  Run frozen{{"freeze_in_a_group"}, within, 4};
  Run diverged{{"diverge_in_a_group"}, within, 4};
  Run dead{{"die_in_a_group"}, within, 4};
  CHECK_THAT(failed(thrown.child), Contains("zeroth: [rank 3/4] the data are gone\n"));
  CHECK_THAT(failed(frozen.child), Contains("rank 2 (of 'gather-group': ranks 2 and 3) waited ") &&
                                       Contains("all_gather (forward of unit 'block0'") && Contains("missing: rank 3"));
  CHECK_THAT(failed(diverged.child), Contains("rank 2 (of 'gather-group': ranks 2 and 3) in its transaction") &&
                                         Contains("rank 3 (of 'gather-group': ranks 2 and 3) in its transaction"));
  CHECK_THAT(failed(dead.child),
             Contains("rank 3 on ") && Contains(" (of 'gather-group': ranks 2 and 3; 'reduce-replicas': ranks 1 and 3) "
                                                "ended without leaving the job"));
}

TEST_CASE("a fault of a process in one pipeline stage over tcp ends those of all stages") {
  for (int stage = 0; stage < 3; ++stage) {
    INFO("stage " << stage);
    auto const scenario = [&](char const* fault) { return fmt::format("{}_in_stage_{}", fault, stage); };
    Run thrown{{scenario("throw")}, "memory"};
    Run frozen{{scenario("freeze")}, "memory"};
    Run dead{{scenario("die")}, "memory"};
    CHECK_THAT(failed(thrown.child), Contains(fmt::format("zeroth: [rank {}/3] the data are gone\n", stage)));
    CHECK_THAT(failed(frozen.child), Contains(" waited ") && Contains("of unit 'layer") && Contains("communicator '"));
    CHECK_THAT(failed(dead.child),
               Contains(fmt::format("] rank {} ", stage)) && Contains("ended without leaving the job"));
  }
}

TEST_CASE("a fault of a process before sums of shared parameters are exchanged over tcp ends all") {
  Run thrown{{"throw_before_ties"}, "memory"};
  Run frozen{{"freeze_before_ties"}, "memory"};
  Run dead{{"die_before_ties"}, "memory"};
  CHECK_THAT(failed(thrown.child), Contains("zeroth: [rank 0/3] the data are gone\n"));
  CHECK_THAT(failed(frozen.child), Contains(" waited ") && Contains("(add ties of unit 'layer0.w"));
  CHECK_THAT(failed(dead.child), Contains("] rank 0 ") && Contains("ended without leaving the job"));
}

TEST_CASE("a fault of a tensor rank's process before a verb or a sum of gradients over tcp ends all") {
  for (auto const& [place, words] :
       {std::pair{"enter_backward", "reduce_scatter (enter_backward(), 8 fp32)"},
        std::pair{"parts", "all_reduce (add parts of unit 'block (partial)', 128 fp32)"}}) {
    INFO(place);
    auto const scenario = [where = place](char const* fault) { return fmt::format("{}_before_{}", fault, where); };
    Run thrown{{scenario("throw")}, "memory"};
    Run frozen{{scenario("freeze")}, "memory"};
    Run dead{{scenario("die")}, "memory"};
    CHECK_THAT(failed(thrown.child), Contains("zeroth: [rank 1/3] the data are gone\n"));
    CHECK_THAT(failed(frozen.child), Contains(" waited ") && Contains(words) && Contains("missing: rank 1"));
    CHECK_THAT(failed(dead.child), Contains("] rank 1 ") && Contains("ended without leaving the job"));
  }
}

TEST_CASE("invalid variables are rejected on all ranks over tcp") {
  Folder const folder;
  for (auto const& [name, value, words] :
       {std::array{"ZEROTH_WITHIN_MACHINE", "shm",
                   "ZEROTH_WITHIN_MACHINE='shm' in the environment: allowed are memory"},
        std::array{"ZEROTH_INTERFACE", "no such",
                   "interface 'no such' has no address: this machine's interfaces are"}}) {
    auto options = ranks({"fine"}, folder);
    options.environment[name] = value;
    Child child{options};
    auto const ending = child.wait();
    CAPTURE(child.output());
    CHECK(ending.status == 2);
    CHECK_THAT(child.output(), Contains("cannot take part: ") && Contains(words));
    if (name == std::string_view{"ZEROTH_WITHIN_MACHINE"}) {  // this is checked before ranks meet
      CHECK_THAT(child.output(), Contains(std::string{"[error] [rank 0/3] "} + words));
    }
  }
}

}  // namespace
}  // namespace zeroth::testing
