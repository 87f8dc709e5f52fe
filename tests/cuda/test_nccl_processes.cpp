// SPDX-License-Identifier: Apache-2.0
/// Ranks that are processes, as torchrun starts them, each on a GPU and an NCCL of the tests'.
#include <signal.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "comm/store/socket.hpp"
#include "comm/store_ranks.hpp"
#include "core/host_name.hpp"
#include "cuda/like_nccl.hpp"
#include "cuda/nccl_training.hpp"
#include "support/catch.hpp"
#include "support/children.hpp"
#include "support/job.hpp"
#include "support/reserved_port.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using Environment = std::map<std::string, std::string>;

constexpr int calm_ms = 120'000;   // longer than any of these tests
constexpr int hurried_ms = 3'000;  // for a rank that waits for a missing one

struct Machine {
  int world = 2;
  int gpus = 4;  // GPUs that every process sees
  int stage = 3;
};

class Processes : public Children {
 public:
  explicit Processes(Machine const& machine) : machine_{machine} {}
  Processes(Machine const& machine, std::vector<std::string> const& deeds) : Processes{machine} {
    for (auto const& deed : deeds) {
      start_rank(static_cast<int>(count()), deed);
    }
  }
  /// Starts a rank with `more` in its environment; an empty value removes a variable.
  void start_rank(int rank, std::string const& deed, Environment const& more = {}, int join_ms = calm_ms) {
    Environment environment{{"RANK", std::to_string(rank)},
                            {"WORLD_SIZE", std::to_string(machine_.world)},
                            {"LOCAL_RANK", std::to_string(rank)},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"ZEROTH_JOB_TOKEN", "this test's"},  // deeds differ
                            {"MASTER_PORT", std::to_string(port_.number())}};
    for (auto const& [name, value] : more) {
      environment[name] = value;
    }
    std::erase_if(environment, [](auto const& each) { return each.second.empty(); });
    start({ZEROTH_NCCL_PROGRAM, deed, std::to_string(machine_.gpus), std::to_string(machine_.stage),
           (folder() / "nccl").string(), std::to_string(join_ms)},
          environment);
  }
  /// Starts rank 0 and, once it listens, the last rank, whose timeout for the others ends the wait of all.
  void start_two(std::string const& deed, int last) {
    start_rank(0, deed);
    auto const deadline = Clock::now() + std::chrono::milliseconds{calm_ms};
    while (!comm::connect_to("127.0.0.1", port_.number(), deadline).socket && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    start_rank(last, deed, {}, hurried_ms);
  }
  /// Checks that a rank that ended with the job gives the reason, in its output and in its flight record.
  void check_told(std::size_t rank, std::string const& why) {
    check_said(rank, why, 1);
    CHECK_THAT(flight_of(rank), Contains(why));
  }
  [[nodiscard]] std::string flight_of(std::size_t rank) const {
    std::ifstream in{folder() / fmt::format("zeroth_flight_rank{}.json", rank)};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

 private:
  Machine machine_;
  ReservedPort port_;
};

std::string trained_by_threads(int world, int stage) {
  auto const config = nccl_training(stage);
  std::vector<std::string> words(static_cast<std::size_t>(world));
  auto const train = [&](Job& job) {
    words[static_cast<std::size_t>(job.rank())] = outcome_word(train_synthetic(job, config, {}));
  };
  auto const outcome = run_job(world, train, like_nccl);
  REQUIRE(messages_of(outcome) == "");
  REQUIRE(std::all_of(words.begin(), words.end(), [&](auto const& each) { return each == words.front(); }));
  return words.front();
}

}  // namespace

TEST_CASE("processes over NCCL train with the bits of threads on the CPU") {
  for (int const world : {1, 2, 4}) {
    for (int const stage : {0, 1, 2, 3}) {
      CAPTURE(world, stage);
      Processes job{{.world = world, .stage = stage},
                    std::vector<std::string>(static_cast<std::size_t>(world), "train")};
      auto const expected = trained_by_threads(world, stage);
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(world); ++rank) {
        job.check_said(rank, expected, 0);
        CHECK(job.flight_of(rank).empty());
      }
    }
  }
}

TEST_CASE("an exception of a rank ends all processes, and is in every flight record") {
  int const thrower = GENERATE(0, 1);
  std::vector<std::string> deeds(3, "go on");
  deeds[static_cast<std::size_t>(thrower)] = "throw";
  Processes job{{.world = 3}, deeds};
  auto const why = fmt::format("rank {} failed: the disk is full", thrower);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    job.check_said(rank, static_cast<int>(rank) == thrower ? "] the disk is full" : why, 1);
    CHECK_THAT(job.flight_of(rank), Contains(why));
  }
}

TEST_CASE("a process that is killed is named to all others") {
  std::size_t const victim = GENERATE(0U, 2U);
  Processes job{{.world = 3}, {"go on", "go on", "go on"}};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    REQUIRE(job[rank].wait_for("trained"));
  }
  job[victim].send(SIGKILL);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    if (rank != victim) {
      job.check_told(rank, "ended without leaving the job");
      CHECK_THAT(job[rank].output(), Contains(fmt::format("rank {} ", victim)));
    }
  }
  CHECK(job[victim].wait().signal == SIGKILL);
}

TEST_CASE("a process of a group that is killed is named to all others, with its group") {
  Processes job{{.world = 4}, std::vector<std::string>(4, "go on in pairs")};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    REQUIRE(job[rank].wait_for("trained"));
  }
  job[3].send(SIGKILL);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    job.check_told(rank, " (of 'pair': ranks 2 and 3) ended without leaving");
  }
}

TEST_CASE("a rank that never starts is named to those that did") {
  Processes job{{.world = 3}};
  job.start_two("train", 1);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    job.check_said(rank, "rank 2 (has not joined)", 1);
  }
}

TEST_CASE("ranks that never find rank 0 end") {
  Processes job{{.world = 2}};
  job.start_rank(1, "train", {}, hurried_ms);
  job.check_said(0, "rank 1 of 2 did not find rank 0's store at 127.0.0.1:", 1);
}

TEST_CASE("creation of an NCCL communicator that never finishes ends the job") {
  Processes job{{.world = 2}};
  job.start_two("never made", 1);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto const ending = job[rank].wait();
    CHECK(ending.in_time);
    CHECK(ending.status == 1);
    CHECK_THAT(job.flight_of(rank),
               Contains("could not make communicator 'world': ncclCommInitRankConfig of communicator "
                        "'world' on cuda:") &&
                   Contains("did not end within"));
  }
}

TEST_CASE("a rank whose NCCL abort does not return is terminated with a reason") {
  Processes job{{.world = 3}, {"wait for ever", "wait for ever", "wait for ever"}};
  job.check_said(1, "] the disk is full", 1);
  for (std::size_t const rank : {0U, 2U}) {  // its GPU is still working, so none of its memory can be freed
    job.check_told(rank, "rank 1 failed: the disk is full");
    CHECK_THAT(job[rank].output(),
               Contains(fmt::format("rank {} did not stop within 500 ms, and is terminated", rank)));
  }
}

TEST_CASE("a launch order that the environment sets is kept, with a warning") {
  Processes job{{.world = 2}};
  job.start_rank(0, "train", {{"NCCL_LAUNCH_ORDER_IMPLICIT", "0"}});
  job.start_rank(1, "train");
  job.check_said(0, "trained", 0);
  job.check_said(1, "trained", 0);
  std::string const warning = "NCCL_LAUNCH_ORDER_IMPLICIT=0 in the environment: collectives of several communicators";
  CHECK_THAT(job[0].output(), Contains(warning) && Contains("order is 0"));
  CHECK_THAT(job[1].output(), !Contains("NCCL_LAUNCH_ORDER_IMPLICIT=") && Contains("order is 1"));
}

TEST_CASE("variables that make NCCL's calls block, or its communicators share, cause a warning") {
  Processes job{{.world = 2}};
  job.start_rank(0, "train", {{"NCCL_COMM_BLOCKING", "1"}, {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "1"}});
  job.start_rank(1, "train", {{"NCCL_COMM_BLOCKING", "0"}});
  job.check_said(0, "trained", 0);
  job.check_said(1, "trained", 0);
  CHECK_THAT(job[0].output(),
             Contains("NCCL_COMM_BLOCKING=1 in the environment: calls of NCCL that wait for a rank which is gone") &&
                 Contains("NCCL_COMM_SPLIT_SHARE_RESOURCES=1 in the environment: gathers and reductions"));
  CHECK_THAT(job[1].output(), !Contains("in the environment"));
}

TEST_CASE("ranks that would share a GPU end with an error on all ranks") {
  Processes job{{.world = 2, .gpus = 1}, {"train", "train"}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    job.check_said(rank, "ranks 0, 1 would all compute on GPU 0000:01:00.0 of " + host_name(), 2);
    CHECK_THAT(job[rank].output(), Contains("LaunchOptions::share_devices"));
  }
}

TEST_CASE("a rank without its own GPU is reported on all ranks") {
  Processes job{{.world = 3, .gpus = 2}, {"train", "train", "train"}};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    job.check_said(rank,
                   fmt::format("rank 2 on {} cannot take part: local rank 2 has no GPU of its own: its process sees 2",
                               host_name()),
                   2);
  }
}

TEST_CASE("a rank that sees no GPU is reported on all ranks") {
  Processes job{{.world = 2, .gpus = 0}, {"train", "train"}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    job.check_said(
        rank, "cannot take part: it needs a GPU, but its process sees none: cudaGetDeviceCount: no CUDA-capable device",
        2);
  }
}

TEST_CASE("a rank that does not know its GPU is reported on all ranks, with the variable to set") {
  Processes job{{.world = 2, .gpus = 2}};
  for (int const rank : {0, 1}) {
    job.start_rank(rank, "train", rank == 1 ? Environment{{"LOCAL_RANK", ""}} : Environment{});
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    job.check_said(rank, "torchrun (RANK=1 WORLD_SIZE=2) did not say which is its own: set LOCAL_RANK", 2);
  }
}

TEST_CASE("contradictory variables are rejected") {
  Processes job{{.world = 2}};
  job.start_rank(0, "train", {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  job.check_said(0, "RANK=0 WORLD_SIZE=2 and OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 contradict each other", 2);
}

TEST_CASE("a process of another job is rejected, and the job continues") {
  Processes job{{.world = 2}};
  job.start_rank(0, "train", {{"ZEROTH_JOB_TOKEN", "today"}});
  job.start_rank(1, "train", {{"ZEROTH_JOB_TOKEN", "yesterday"}});
  job.check_said(1, "this process's job token differs from that job's", 2);
  job.start_rank(1, "train", {{"ZEROTH_JOB_TOKEN", "today"}});
  job.check_said(0, "trained", 0);
  job.check_said(2, "trained", 0);
}

}  // namespace zeroth::testing
