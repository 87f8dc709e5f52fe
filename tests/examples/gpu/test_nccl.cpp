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

TEST_CASE("tensor ranks over NCCL train as one rank on the CPU does, whatever the stage") {
  auto const divides_rows = GENERATE(false, true);
  auto const cpu = on_cpu({.ranks = 2, .steps = 4});
  std::string weights;
  for (int const stage : {0, 3}) {
    CAPTURE(divides_rows, stage);
    zeroth::testing::begin_nccl_on({.count = 4, .delays = 7});
    Folder const folder;
    auto const left = train_in(
        folder, {.ranks = 4, .stage = stage, .steps = 4, .tensor = 2, .divides_rows = divides_rows, .everywhere = true},
        [](int world, std::function<void(zeroth::Job&)> const& rank_main) {
          return zeroth::testing::run_nccl_job(world, rank_main, world);
        },
        train_on_gpu);
    CHECK(left.steps.size() == 4);
    CHECK(worst_loss(cpu, left) < 1e-5);
    REQUIRE(left.memory.size() == 4);
    for (auto const& record : left.memory) {
      CHECK(record["measured_peak"] == record["planned"]);
    }
    CHECK((weights.empty() || left.weights == weights));
    weights = left.weights;
  }
  CHECK(zeroth::testing::left_over() == "");
}

}  // namespace gpt
