// SPDX-License-Identifier: Apache-2.0
/// Metrics besides the loss: their means, and their errors.
#include <cmath>
#include <string>
#include <vector>

#include "comm/host_collectives.hpp"
#include "engine/reports.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {

// Host communicators sum them with or without staging memory: a plan has none for them.
static_assert(sizeof(optim::StepSums) <= comm::HostCollectives::small_bytes);

using Catch::Contains;

TEST_CASE("a metric is its sum over its weight, over ranks and micro-steps, step by step") {
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<double> accuracy, tokens;
    run(3, small_config(stage), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
      auto const right = engine.add_metric("accuracy");
      auto const count = engine.add_metric("tokens");
      auto const note = [&](std::optional<StepReport> const& report) {
        if (report && job.rank() == 2) {
          accuracy.push_back(report->metrics[right]);
          tokens.push_back(report->metrics[count]);
        }
      };
      for (int step = 1; step <= 2; ++step) {
        for (auto micro : engine.micro_steps()) {
          if (job.rank() > 0) {  // one rank reports none
            micro.report_metric(right, 1, step);
            micro.report_metric(right, job.rank() - 1);
          }
          micro.report_metric(count, 1000 * step);
          micro_step(micro, small);
        }
        note(engine.step());
      }
      note(engine.finish());
      return Seen{};
    });
    INFO("stage " << stage);
    // Two micro-steps each: rank 1 gives 1 / step + 0 / 1, rank 2 gives 1 / step + 1 / 1.
    CHECK(accuracy == std::vector<double>{3.0 / 4, 3.0 / 6});
    CHECK(tokens == std::vector<double>{1000, 2000});
  }
}

TEST_CASE("metrics of an evaluation are its own, and leave those of the step alone") {
  std::vector<double> seen;
  run(2, small_config(3), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
    auto const unused = engine.add_metric("unused");
    auto const right = engine.add_metric("accuracy");
    auto evaluation = engine.evaluation(2);
    for (auto pass : evaluation) {
      forward(pass, small);
      pass.report_loss(1);
      pass.report_metric(right, job.rank(), 1);
    }
    for (auto micro : engine.micro_steps()) {
      micro.report_metric(right, 4, 8);
      micro_step(micro, small);
    }
    engine.step();
    auto const report = engine.finish();
    if (job.rank() == 0) {
      seen.push_back(evaluation.metrics()[right]);
      seen.push_back(std::isnan(evaluation.metrics()[unused]) ? -1 : 0);
      seen.push_back(report->metrics[right]);
      seen.push_back(std::isnan(report->metrics[unused]) ? -1 : 0);
    }
    return Seen{};
  });
  CHECK(seen == std::vector<double>{0.5, -1, 0.5, -1});
}

TEST_CASE("invalid metrics are rejected by name, and the engine stays usable") {
  std::vector<std::string> said;
  auto const refused = [&](auto const& call) { said.push_back(thrown<ContractError>(call)); };
  run(1, small_config(0), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
    auto const first = engine.add_metric("first");
    refused([&] { static_cast<void>(engine.add_metric("")); });
    refused([&] { static_cast<void>(engine.add_metric("first")); });
    for (int i = 2; i <= 8; ++i) {
      static_cast<void>(engine.add_metric(fmt::format("metric {}", i)));
    }
    refused([&] { static_cast<void>(engine.add_metric("ninth")); });
    SmallModel const others_model;
    Engine<float> other{job, others_model.model, small_config(0)};
    auto const others = other.add_metric("other");
    for (auto micro : engine.micro_steps()) {
      refused([&] { micro.report_metric(others, 1); });
      refused([&] { micro.report_metric(first, 1, -1); });
      refused([&] { micro.report_metric(first, 1, std::numeric_limits<double>::infinity()); });
      refused([&] { static_cast<void>(engine.add_metric("late")); });
      micro_step(micro, small);
    }
    engine.step();
    engine.finish();
    return Seen{};
  });
  REQUIRE(said.size() >= 7);
  CHECK_THAT(said[0], Contains("add_metric(): the name is empty"));
  CHECK_THAT(said[1], Contains(R"(add_metric(): the metric "first" exists already)"));
  CHECK_THAT(said[2],
             Contains(R"(add_metric() of "ninth": an engine has at most 8 metrics, and this one has first, )"));
  CHECK_THAT(said[3], Contains("report_metric(): the metric belongs to another engine"));
  CHECK_THAT(said[4], Contains(R"(report_metric() of "first": weight is -1, must be 0 or more and finite)"));
  CHECK_THAT(said[5], Contains("weight is inf"));
  CHECK_THAT(said[6], Contains("add_metric() while"));
}

TEST_CASE("different metrics of ranks are reported") {
  auto const outcome = run_job(2, [](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(1)};
    static_cast<void>(engine.add_metric(job.rank() == 0 ? "accuracy" : "acuracy"));
    all_micro_steps(engine, small);
    engine.step();
    engine.finish();
  });
  for (auto const& error : outcome) {
    CHECK(holds<PeerError>(error));
  }
  CHECK_THAT(messages_of(outcome), Contains("add_metric() of a name with the hash"));
}

}  // namespace zeroth::testing
