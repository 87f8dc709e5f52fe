// SPDX-License-Identifier: Apache-2.0
/// Compares training with recorded steps and training without.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/graph_training.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {

inline std::vector<std::uint32_t> bits(std::vector<StepReport> const& reports) {
  std::vector<std::uint32_t> all;
  for (auto const& report : reports) {
    for (float const value : {report.loss, report.grad_norm, report.learning_rate, report.loss_scale}) {
      all.push_back(bits_of_number(value));
    }
    all.push_back((report.skipped ? 1U : 0U) + (report.nonfinite ? 2U : 0U) +
                  static_cast<std::uint32_t>(report.step) * 4);
    all.push_back(static_cast<std::uint32_t>(report.reduced_bytes));
  }
  return all;
}

/// Trains on as many ranks as `machine` has GPUs.
inline GraphRun run_anew(fake_cuda::Machine const& machine, Config const& config, std::int64_t batch,
                         GraphPlan const& plan) {
  begin_nccl(machine);
  auto run = run_graphs(machine.gpus, config, batch, plan);
  CHECK(left_over() == "");
  return run;
}

/// The same steps, none of them recorded.
inline GraphPlan eager(GraphPlan plan) {
  plan.first_recorded = plan.steps;
  return plan;
}

inline void expect_same(GraphRun const& run, GraphRun const& expected) {
  REQUIRE(run.errors == "");
  for (std::size_t rank = 0; rank < run.reports.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(bits(run.reports[rank]) == bits(expected.reports[rank]));
    // Not in all steps: prefetched units are gathered again when a recording begins.
    CHECK(run.reports[rank].back().gathered_bytes == expected.reports[rank].back().gathered_bytes);
  }
  CHECK(run.weights == expected.weights);
  CHECK_FALSE(run.weights.empty());
}

}  // namespace zeroth::testing
