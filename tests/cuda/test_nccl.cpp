// SPDX-License-Identifier: Apache-2.0
/// The communicator nccl, on an NCCL of the tests' own, or on GPUs.
#include "cuda/nccl_ranks.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace zeroth::comm::conformance {
namespace {

using testing::begin_nccl_on;
using testing::left_over;
using testing::run_nccl_ranks;

struct Ranks {
  int world, gpus;
  bool check;
};
#ifdef ZEROTH_ON_GPU
/// Numbers of ranks, each of which needs its own GPU: some of the machine's GPUs, and all.
std::vector<Ranks> jobs() {
  int const all = device::cuda_device_count();
  return {{1, 1, true}, {2, 2, false}, {all, all, true}};
}
std::vector<int> worlds_of_faults() { return {device::cuda_device_count()}; }
constexpr bool sums_in_rank_order = false;
#else
std::vector<Ranks> jobs() {
  return testing::sanitized ? std::vector<Ranks>{{3, 1, true}, {4, 2, false}}
                            : std::vector<Ranks>{{1, 1, true}, {2, 1, false}, {3, 1, true}, {4, 2, false}};
}
std::vector<int> worlds_of_faults() { return {2, 3}; }
constexpr bool sums_in_rank_order = true;  // the tests' own NCCL
#endif

}  // namespace

TEST_CASE("the nccl communicator conforms") {
  auto cases = conformance_cases();
  std::erase_if(cases,
                [](auto const& each) { return each.in_opposite_order || (each.in_rank_order && !sums_in_rank_order); });
  for (auto const& job : jobs()) {
    begin_nccl_on({.count = job.gpus});
    auto const problems = run_nccl_ranks(
        job.world,
        [&](Rank& rank, auto& /*owner*/) {
          rank.communicator.set_options({std::chrono::minutes{3}, job.check});
          return problems_of(cases, rank);
        },
        job.gpus);
    for (auto const& problem : problems) {
      CAPTURE(job.world, job.gpus, job.check);
      CHECK(problem == "");
    }
    CHECK(left_over() == "");
  }
}

TEST_CASE("faults end every rank of nccl") {
  for (int const world : worlds_of_faults()) {
    int const gpus = testing::are_there(world) ? world : 1;
    for (auto const& each : fault_cases()) {
      begin_nccl_on({.count = gpus});
      auto const problems = run_nccl_ranks(world, [&](Rank& rank, auto& /*owner*/) { return problem_of(each, rank); },
                                           gpus, {.timeout = std::chrono::minutes{10}, .check = true});
      for (auto const& problem : problems) {
        CAPTURE(world, each.name);
        CHECK(problem == "");
      }
      CHECK(left_over() == "");
    }
  }
}

}  // namespace zeroth::comm::conformance
