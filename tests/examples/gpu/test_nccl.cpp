// SPDX-License-Identifier: Apache-2.0
/// train_gpt's loop over an NCCL of the tests' own, to the last record of its report. On GPUs: test_nccl_processes.cpp.
#include <set>

#include "examples/gpu/training_over_nccl.hpp"
#include "support/sanitized.hpp"

namespace gpt {

using namespace testing;

TEST_CASE("a job over NCCL trains, and tells memory and trace of every rank") {
  constexpr int ranks = 3;
  Run const run{.ranks = ranks, .stage = 3, .steps = 4, .traces = true};
  auto const left = over_nccl(run);
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
}

TEST_CASE("tensor ranks over NCCL train as one rank on the CPU does, whatever the stage") {
  auto const divides_rows = GENERATE(false, true);
  auto const cpu = on_cpu({.ranks = 2, .steps = 4});
  std::string weights;
  for (int const stage : {0, 3}) {
    CAPTURE(divides_rows, stage);
    auto const left = over_nccl(
        {.ranks = 4, .stage = stage, .steps = 4, .tensor = 2, .divides_rows = divides_rows, .everywhere = true}, 7);
    CHECK(left.steps.size() == 4);
    CHECK(worst_loss(cpu, left) < 1e-5);
    REQUIRE(left.memory.size() == 4);
    for (auto const& record : left.memory) {
      CHECK(record["measured_peak"] == record["planned"]);
    }
    CHECK((weights.empty() || left.weights == weights));
    weights = left.weights;
  }
}

TEST_CASE("with --step-graph a job has the bits of steps that are not recorded, also after it resumes") {
  auto const keys = GENERATE(as<std::string>{}, "", bf16_keys, fp16_keys);
  bool const recompute = GENERATE(false, true);
  static zeroth::testing::Sample sample{5, 1};
  if (sample.leaves_out()) {
    return;
  }
  CAPTURE(keys, recompute);
  Run run{.ranks = 2, .stage = recompute ? 3 : 2, .steps = 9, .precision = keys, .recompute = recompute};
  auto const expected = over_nccl(run);
  CHECK(expected.steps.size() == 9);
  run.step_graph = true;
  auto const recorded = over_nccl(run, 3);
  CHECK(numbers(recorded) == numbers(expected));
  CHECK(recorded.weights == expected.weights);
  CHECK(recorded.memory == expected.memory);

  Folder const folder;
  run.save_every = 5;
  run.steps = 5;
  static_cast<void>(over_nccl(run, 5, folder));
  run.steps = 9;
  auto const resumed = over_nccl(run, 7, folder);
  CHECK(resumed.steps.size() == 4);
  CHECK(resumed.weights == expected.weights);
}

TEST_CASE("with --step-graph a step launches two graphs and no kernels") {
  auto const calls_of = [](int steps) {
    static_cast<void>(over_nccl({.ranks = 1, .stage = 1, .steps = steps, .step_graph = true}));
    return zeroth::testing::fake_cuda::calls();
  };
  auto few = calls_of(5);
  auto more = calls_of(9);
  CHECK(more["cudaGraphLaunch"] - few["cudaGraphLaunch"] == 2 * 4);
  CHECK(more["launch"] - few["launch"] == 2 * 4);  // the copies of micro-batches
  CHECK(more["cudaMemcpyAsync"] - few["cudaMemcpyAsync"] == 2 * 4);
}

}  // namespace gpt
