// SPDX-License-Identifier: Apache-2.0
// Ranks as threads: however a job ends, it prints the reason and writes its flight records.
#include <fmt/format.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "faults/fault_run.hpp"
#include "support/catch.hpp"
#include "support/odd_streams.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// A job of the fault program that runs concurrently with the test, so that several wait at the same time.
struct Run {
  explicit Run(std::vector<std::string> const& arguments) : child{fault_program(arguments, folder)} {}
  Folder folder;
  Child child;
};

std::vector<std::string> on_three_ranks(std::string const& scenario) {
  return {scenario, "--ranks", "3", "--grace", "1000"};
}

/// The job ended by itself, with an error.
void check_failed(Ending const& ending) {
  CHECK(ending.in_time);
  CHECK(ending.status == 1);
}

TEST_CASE("a job without faults ends with status 0 and leaves nothing behind") {
  Folder const folder;
  Child child{fault_program({"fine"}, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  CHECK_THAT(child.output(), Contains("launch has returned.") && !Contains("zeroth:"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an exception on one rank ends all, and is printed") {
  Folder const folder;
  Child child{fault_program({"throw"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(count_of(child.output(), "zeroth: [rank 1/4] the data are gone\n") == 1);
  CHECK(count_of(child.output(), "the data are gone") == 1);  // the other ranks do not repeat it
  CHECK_THAT(child.output(), Contains("launch has returned."));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "the data are gone") == "");
}

TEST_CASE("destroying an engine inside its own pass ends the process with a message") {
  Folder const folder;
  Child child{fault_program({"end_in_a_pass"}, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.signal == SIGABRT);
  CHECK_THAT(child.output(), Contains("zeroth: [rank 1/4] the engine was destroyed while micro-step 1 of 2 is open: it "
                                      "must outlive its passes and guards"));
}

TEST_CASE("flight records are in the folder that the stage file names") {
  Folder const folder;
  Child child{fault_program({"flights"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(problem_of_flights(folder / "flights/of this job", {0, 1, 2, 3}, 4, "the data are gone") == "");
  CHECK(folder.contents() == "flights ");
  CHECK_THAT(child.output(), Contains("flight record written: flights/of this job/zeroth_flight_rank0.json to "));
}

TEST_CASE("a flight record that cannot be written is reported with the reason") {
  Folder const folder;
  std::ofstream{folder / "flights"} << "a file where the folder would be";
  Child child{fault_program({"flights", "--ranks", "2"}, folder)};
  check_failed(child.wait());
  CHECK_THAT(child.output(), Contains("the data are gone") && !Contains("flight record written") &&
                                 Contains("zeroth: flight record not written: the folder of flight records, flights/of "
                                          "this job, cannot be created: Not a directory\n"));
  CHECK(folder.contents() == "flights ");
}

TEST_CASE("a failure that a program catches is reported, and fails the job") {
  Folder const folder;
  Child child{fault_program({"swallow"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(count_of(child.output(), "zeroth: ") == 2);  // the cause, and the place of the records
  CHECK_THAT(child.output(),
             Contains("the engine of rank 1 ended by an error: [rank 1/4] ") && Contains("launch has returned."));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "the engine of rank 1 ended by an error") == "");
}

TEST_CASE("an error found only when an engine is destroyed is reported, and fails the job") {
  Folder const folder;
  Child child{fault_program({"lost", "--ranks", "2"}, folder)};
  check_failed(child.wait());
  CHECK_THAT(child.output(), Contains("ended by an error: [rank ") &&
                                 Contains("micro-step 1 of step 1 ended after 0 of 1 backward turns of unit"));
}

TEST_CASE("if no thread can be started for a rank, the ranks that have started end") {
  Folder const folder;
  Child child{fault_program({"meet", "--ranks", "8", "--threads", "4"}, folder)};  // one thread watches for signals
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK(count_of(child.output(),
                 "zeroth: cannot start a thread for rank 3 of 8: Resource temporarily unavailable; run fewer ranks on "
                 "this machine, or raise its limit of threads (ulimit -u") == 1);
  CHECK_THAT(child.output(), Contains("launch has returned."));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2}, 8, "cannot start a thread for rank 3 of 8") == "");
}

TEST_CASE("the error about a thread that cannot be started names its purpose") {
  Folder const folder;
  Child job{fault_program({"meet", "--threads", "0"}, folder)};
  check_failed(job.wait());
  CHECK_THAT(job.output(), Contains("zeroth: cannot start a thread for signals: ") && Contains("launch has returned."));
  Child stream{fault_program({"threads"}, folder)};
  check_failed(stream.wait());
  CHECK_THAT(stream.output(), Contains("zeroth: [rank 1/4] cannot start a thread for stream 'gather': "));
}

TEST_CASE("a rank without memory reports it, and what to do") {
  Folder const folder;
  Child child{fault_program({"memory", "--ranks", "2"}, folder)};
  check_failed(child.wait());
  CHECK_THAT(child.output(), Contains("zeroth: [rank 1/2] the process is out of memory: run fewer ranks"));
  Child many{fault_program({"meet", "--ranks", "10000000"}, folder)};
  CHECK(many.wait().status == 2);
  CHECK_THAT(many.output(), Contains("zeroth: LaunchOptions::thread_ranks is 10000000: allowed are 1 to "));
}

TEST_CASE("a thrown value that is not a std::exception ends all ranks, too") {
  Folder const folder;
  Child child{fault_program({"throw_a_number", "--ranks", "2"}, folder)};
  check_failed(child.wait());
  CHECK_THAT(child.output(), Contains("[rank 1/2] something other than a std::exception was thrown"));
}

TEST_CASE("a rank that is frozen in its own code is detected and named, and the process exits without it") {
  Folder const folder;
  Child child{fault_program({"freeze", "--timeout", "1000", "--grace", "1000"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(), Contains(" waited ") && Contains("all_reduce (step of unit 'h.3', 2 fp32)") &&
                                 Contains("transaction 4 of communicator 'world'") && Contains("missing: rank 1"));
  CHECK(count_of(child.output(), "missing: ") == 1);
  CHECK_THAT(child.output(), Contains("rank 1 did not stop within 1.00 s"));
  CHECK_THAT(child.output(), !Contains("launch has returned."));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "missing: rank 1") == "");
}

TEST_CASE("a fault in one group ends all with the group's name") {
  Run fine{{"groups"}};  // the runs wait at the same time
  Run throws{{"throw_in_a_group"}};
  Run freezes{{"freeze_in_a_group", "--grace", "1000"}};
  Run diverges{{"diverge_in_a_group"}};
  auto const output_of = [](Run& run) {
    check_failed(run.child.wait());
    return run.child.output();
  };
  CHECK(fine.child.wait().status == 0);
  auto const thrown = output_of(throws);
  CAPTURE(thrown);
  CHECK(count_of(thrown, "zeroth: [rank 3/4] the data are gone\n") == 1);
  CHECK_THAT(thrown, Contains("launch has returned."));
  auto const frozen = output_of(freezes);
  CAPTURE(frozen);
  CHECK_THAT(frozen, Contains("rank 2 (of 'gather-group': ranks 2 and 3) waited ") &&
                         Contains("all_gather (forward of unit 'block0'") &&
                         Contains("of communicator 'gather-group'") &&
                         Contains("missing: rank 3 (of 'gather-group': ranks 2 and 3)") &&
                         Contains("rank 3 did not stop within 1.00 s"));
  auto const diverged = output_of(diverges);
  CAPTURE(diverged);
  CHECK_THAT(diverged, Contains("rank 2 (of 'gather-group': ranks 2 and 3) in its transaction") &&
                           Contains("rank 3 (of 'gather-group': ranks 2 and 3) in its transaction") &&
                           Contains("all_gather (forward of unit 'block1'"));
  CHECK(count_of(diverged, "do different things") == 1);
}

TEST_CASE("a fault in a pipeline stage ends all with the unit and the channel") {
  std::deque<Run> throwing, freezing;
  for (int stage = 0; stage < 3; ++stage) {  // the runs wait at the same time
    throwing.emplace_back(on_three_ranks(fmt::format("throw_in_stage_{}", stage)));
    freezing.emplace_back(on_three_ranks(fmt::format("freeze_in_stage_{}", stage)));
  }
  for (int stage = 0; stage < 3; ++stage) {
    INFO("stage " << stage);
    auto& throws = throwing[static_cast<std::size_t>(stage)];
    auto& freezes = freezing[static_cast<std::size_t>(stage)];
    check_failed(throws.child.wait());
    CHECK(count_of(throws.child.output(), fmt::format("zeroth: [rank {}/3] the data are gone\n", stage)) == 1);
    CHECK_THAT(throws.child.output(), Contains("launch has returned."));
    check_failed(freezes.child.wait());
    CAPTURE(freezes.child.output());
    // Each neighbour waits on its own channel, and either may time out first.
    CHECK_THAT(freezes.child.output(), Contains(" waited ") && Contains("of unit 'layer") &&
                                           Contains("missing: rank ") &&
                                           (Contains("of communicator 'up'") || Contains("of communicator 'down'")));
    CHECK_THAT(freezes.child.output(), Contains(fmt::format("rank {} did not stop within 1.00 s", stage)));
  }
}

TEST_CASE("a fault in a stage before sums of shared parameters are exchanged ends all with the parameter") {
  Run throws{on_three_ranks("throw_before_ties")};
  Run freezes{on_three_ranks("freeze_before_ties")};
  check_failed(throws.child.wait());
  CHECK(count_of(throws.child.output(), "zeroth: [rank 0/3] the data are gone\n") == 1);
  CHECK_THAT(throws.child.output(), Contains("launch has returned."));
  check_failed(freezes.child.wait());
  CAPTURE(freezes.child.output());
  CHECK_THAT(freezes.child.output(),
             Contains(" waited ") && Contains("(add ties of unit 'layer0.w") && Contains("missing: rank 0"));
}

TEST_CASE("a fault of a tensor rank before a verb, or a sum of gradients, ends all with its name and the rank") {
  std::map<std::string, std::string> const places{
      {"enter", "all_gather (enter(), 8 fp32)"},
      {"leave", "reduce_scatter (leave(), 8 fp32)"},
      {"leave_backward", "all_gather (leave_backward(), 8 fp32)"},
      {"enter_backward", "reduce_scatter (enter_backward(), 8 fp32)"},
      {"parts", "all_reduce (add parts of unit 'block (partial)', 128 fp32)"}};
  std::deque<Run> throwing, freezing;
  for (auto const& [place, words] : places) {  // they wait at the same time
    throwing.emplace_back(on_three_ranks("throw_before_" + place));
    freezing.emplace_back(on_three_ranks("freeze_before_" + place));
  }
  auto throws = throwing.begin();
  auto freezes = freezing.begin();
  for (auto const& [place, words] : places) {
    INFO(place);
    check_failed(throws->child.wait());
    CHECK(count_of(throws->child.output(), "zeroth: [rank 1/3] the data are gone\n") == 1);
    CHECK_THAT(throws->child.output(), Contains("launch has returned."));
    check_failed(freezes->child.wait());
    CAPTURE(freezes->child.output());
    CHECK_THAT(freezes->child.output(),
               Contains(" waited ") && Contains(words) &&
                   Contains(place == "parts" ? "of communicator 'tensor-sums'" : "of communicator 'tensor-verbs'") &&
                   Contains("missing: rank 1") && Contains("rank 1 did not stop within 1.00 s"));
    ++throws;
    ++freezes;
  }
}

TEST_CASE("a fault of a home, while others wait for its matrix, ends all with the unit and the rank") {
  Run throws{on_three_ranks("throw_in_a_product")};
  Run freezes{on_three_ranks("freeze_in_a_product")};
  check_failed(throws.child.wait());
  CHECK(count_of(throws.child.output(), "zeroth: [rank 1/3] the data are gone\n") == 1);
  CHECK_THAT(throws.child.output(), Contains("launch has returned."));
  check_failed(freezes.child.wait());
  CAPTURE(freezes.child.output());
  CHECK_THAT(freezes.child.output(), Contains(" waited ") && Contains("of unit 'block (matrices)'") &&
                                         Contains("missing: rank 1") && Contains("rank 1 did not stop within 1.00 s"));
}

TEST_CASE("ranks that do different things get one error") {
  Folder const folder;
  Child child{fault_program({"out_of_order"}, folder)};
  check_failed(child.wait());
  CAPTURE(child.output());
  CHECK_THAT(child.output(), Contains("rank 0 in its transaction 4 does all_reduce (step of unit 'h.3', 2 fp32)") &&
                                 Contains("rank 1 in its transaction 4 does broadcast (forward of unit 'h.4', 1 fp32"));
  CHECK(count_of(child.output(), "do different things") == 1);
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "do different things") == "");
}

TEST_CASE("a rank that ends early is detected") {
  Folder const folder;
  Child child{fault_program({"leave"}, folder)};
  check_failed(child.wait());
  CHECK_THAT(child.output(), Contains("rank 1 left"));
}

TEST_CASE("Ctrl-C, SIGTERM and SIGUSR1 stop all ranks at the same step") {
  auto const signal = GENERATE(SIGINT, SIGTERM, SIGUSR1);
  Folder const folder;
  Child child{fault_program({"until_stopped"}, folder)};
  REQUIRE(child.wait_for("is under way.", 4));
  child.send(signal);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  auto const words = child.output().substr(child.output().find(" stops at step "));
  auto const step = words.substr(0, words.find('.') + 1);
  CHECK(count_of(child.output(), step) == 4);
  CHECK_THAT(child.output(), Contains("all ranks stop at the next step"));
  CHECK(folder.contents() == "");
}

TEST_CASE("a failed job ends although its output is not read") {
  OddPipe full;
  full.fill();
  Folder const folder;
  Child child{redirected(fault_program({"throw", "--ranks", "2"}, folder), full.takes(2))};
  auto const ending = child.wait();
  CHECK(ending.in_time);
  CHECK(ending.status == 1);
  CHECK(problem_of_flights(folder.path(), {0, 1}, 2, "the data are gone") == "");
}

TEST_CASE("a second Ctrl-C ends the process") {
  Folder const folder;
  Child child{fault_program({"steps"}, folder)};
  REQUIRE(child.wait_for("is under way.", 4));
  child.send(SIGINT);
  REQUIRE(child.wait_for("Ctrl-C again terminates the process at once"));
  child.send(SIGINT);
  auto const ending = child.wait();
  CHECK(ending.in_time);
  CHECK(ending.status == 130);
  CHECK_THAT(child.output(), Contains("the second SIGINT terminates the process"));
}

TEST_CASE("a second SIGTERM kills the process, after it has written flight records") {
  Folder const folder;
  Child child{fault_program({"steps", "--stop-grace", "100000000"}, folder)};
  REQUIRE(child.wait_for("is under way.", 4));
  child.send(SIGTERM);
  REQUIRE(child.wait_for("at the next SIGTERM, the process is terminated"));
  child.send(SIGTERM);
  auto const ending = child.wait();
  CHECK(ending.in_time);
  CHECK(ending.signal == SIGTERM);
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "the second SIGTERM terminates the process") == "");
}

TEST_CASE("ranks that do not stop are terminated after the grace of SIGTERM, but not after Ctrl-C") {
  Folder const folder;
  Child child{fault_program({"freeze_when_stopped", "--stop-grace", "200"}, folder)};
  REQUIRE(child.wait_for("is under way.", 4));
  child.send(SIGINT);
  REQUIRE(child.wait_for("stops at step", 4));
  child.send(SIGTERM);
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.signal == SIGTERM);
  CHECK_THAT(child.output(), Contains("the process did not stop within 200 ms of SIGTERM, and is terminated"));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "did not stop within") == "");
}

TEST_CASE("SIGUSR1 starts the grace of SIGTERM, and a second SIGUSR1 has no effect") {
  Folder const folder;
  Child child{fault_program({"freeze_when_stopped", "--stop-grace", "3000"}, folder)};
  REQUIRE(child.wait_for("is under way.", 4));
  child.send(SIGUSR1);
  REQUIRE(child.wait_for("SIGUSR1: all ranks stop at the next step; in 3.00 s, or at the second SIGTERM, the process"));
  child.send(SIGUSR1);
  child.send(SIGTERM);
  REQUIRE(child.wait_for("SIGTERM: all ranks stop at the next step; 3.00 s after SIGUSR1, or at the next SIGTERM"));
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.signal == SIGTERM);
  CHECK_THAT(child.output(), Contains("the process did not stop within 3.00 s of SIGUSR1, and is terminated"));
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "did not stop within") == "");
}

TEST_CASE("a mistake on one rank determines the exit status, whatever the others report") {
  Folder const folder;
  Child child{fault_program({"wrong"}, folder)};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.in_time);
  CHECK(ending.status == 2);
}

TEST_CASE("without a grace the first SIGTERM ends the process, and a negative grace is rejected") {
  Folder const folder;
  Child child{fault_program({"steps", "--stop-grace", "0"}, folder)};
  REQUIRE(child.wait_for("is under way.", 4));
  child.send(SIGTERM);
  CHECK(child.wait().signal == SIGTERM);
  CHECK(problem_of_flights(folder.path(), {0, 1, 2, 3}, 4, "SIGTERM") == "");
  Child refused{fault_program({"steps", "--stop-grace", "-1"}, folder)};
  CHECK(refused.wait().status == 2);
  CHECK_THAT(refused.output(), Contains("LaunchOptions::stop_grace is -1 ms; allowed: 0 or more"));
}

}  // namespace
}  // namespace zeroth::testing
