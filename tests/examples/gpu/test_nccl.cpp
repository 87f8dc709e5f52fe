// SPDX-License-Identifier: Apache-2.0
/// train_gpt's loop over an NCCL of the tests' own, to the last record of its report. On GPUs: test_nccl_processes.cpp.
#include <set>

#include "cuda/nccl_ranks.hpp"
#include "examples/gpu/training.hpp"

namespace gpt {

using namespace testing;

TEST_CASE("a job over NCCL trains, and tells memory and trace of every rank") {
  constexpr int ranks = 3;
  Run const run{.ranks = ranks, .stage = 3, .steps = 4, .traces = true};
  zeroth::testing::begin_nccl_on({.count = ranks});
  Folder const folder;
  auto const left = train_in(
      folder, run,
      [](int world, std::function<void(zeroth::Job&)> const& rank_main) {
        return zeroth::testing::run_nccl_job(world, rank_main, world);
      },
      train_on_gpu);
  CHECK(left.steps.size() == 4);
  CHECK(worst_loss(on_cpu(run), left) < 1e-5);
  REQUIRE(left.memory.size() == static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto const& record = left.memory[static_cast<std::size_t>(rank)];
    CHECK(record["rank"] == rank);
    CHECK(record["planned"]["total"] > 0);
    CHECK(record["measured_peak"] == record["planned"]);
  }
  auto const trace = json::parse(left.trace);
  std::set<int> processes;
  for (auto const& event : trace["traceEvents"]) {
    processes.insert(event["pid"].get<int>());
  }
  CHECK(processes.size() == static_cast<std::size_t>(ranks));
  CHECK(zeroth::testing::left_over() == "");
}

}  // namespace gpt
