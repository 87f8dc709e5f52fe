/// The communicator nccl, on an NCCL of the tests' own.
#include "cuda/nccl_ranks.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

namespace fake_nccl = testing::fake_nccl;
using testing::begin_nccl;
using testing::left_over;
using testing::run_nccl_ranks;

}  // namespace

TEST_CASE("the nccl communicator conforms") {
  struct Job {
    int world, gpus;
    bool check;
  };
  auto const job = GENERATE(Job{1, 1, true}, Job{2, 1, false}, Job{3, 1, true}, Job{4, 2, false});
  begin_nccl({.gpus = job.gpus, .reaches_host_memory = true});
  auto const cases = conformance_cases();
  auto const problems = run_nccl_ranks(
      job.world,
      [&](Rank& rank, auto& /*owner*/) {
        rank.communicator.set_options({std::chrono::minutes{3}, job.check});
        std::string all;
        for (auto const& each : cases) {
          if (each.in_opposite_order) {
            continue;
          }
          if (auto const problem = problem_of(each, rank); !problem.empty()) {
            all += each.name + ": " + problem + "\n";
          }
        }
        return all;
      },
      job.gpus);
  for (auto const& problem : problems) {
    CAPTURE(job.world, job.gpus, job.check);
    CHECK(problem == "");
  }
  CHECK(left_over() == "");
}

TEST_CASE("faults end every rank of nccl") {
  int const world = GENERATE(2, 3);
  for (auto const& each : fault_cases()) {
    begin_nccl();
    auto const problems = run_nccl_ranks(world, [&](Rank& rank, auto& /*owner*/) { return problem_of(each, rank); }, 1,
                                         {.timeout = std::chrono::minutes{10}, .check = true});
    for (auto const& problem : problems) {
      CAPTURE(world, each.name);
      CHECK(problem == "");
    }
    CHECK(left_over() == "");
  }
}

}  // namespace zeroth::comm::conformance
