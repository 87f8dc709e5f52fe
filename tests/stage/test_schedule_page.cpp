// SPDX-License-Identifier: Apache-2.0
/// The communication of a step, and its order, is as in docs/schedule.md, word for word.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/job.hpp"
#include "zeroth/comm/flight_recorder.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {
namespace {

using Lines = std::vector<std::string>;

/// A rank's record in the words of the page.
std::string line_of(comm::Record const& record) {
  std::string const what{record.what};
  std::string const purpose{record.purpose};
  std::string const unit{record.unit};
  if (what == "all_gather") {
    return purpose == "publish" ? fmt::format("publish {}", unit) : fmt::format("gather {} ({})", unit, purpose);
  }
  if (what == "wait" || what == "release") {
    return fmt::format("{} {} ({})", what, unit, purpose);
  }
  if (purpose == "step") {
    return what == "update" ? fmt::format("update {}", unit) : fmt::format("{} of the step's sums", what);
  }
  return fmt::format("{} {}", what, unit);
}

/// Rank 0's second step with a model of three units and one micro-step.
Lines second_step(int stage) {
  Model model;
  std::vector<Unit> units;
  std::vector<Param<1>> weights;
  for (auto const* name : {"block0", "block1", "block2"}) {
    units.push_back(model.unit(name));
    weights.push_back(model.param(units.back(), std::string{name} + ".w", {256}, Constant{1}));
  }
  auto const config = Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1,
           "zero_optimization": {{"stage": {}, "overlap_comm": false, "reduce_bucket_size": 1,
                                  "stage3_prefetch_bucket_size": 1}}}})",
      stage));
  std::vector<comm::Record> records;
  auto const outcome = run_job(2, [&](Job& job) {
    auto& recorder = job.communicator().recorder();
    std::size_t before = 0;
    Engine<float> engine{job, model, config};
    for (int step = 1; step <= 2; ++step) {
      before = recorder.snapshot().size();
      for (auto micro : engine.micro_steps()) {
        for (std::size_t u = 0; u < units.size(); ++u) {
          auto const p = micro.forward(units[u]);
        }
        static_cast<void>(micro.report_loss(1));
        for (std::size_t u = units.size(); u-- > 0;) {
          auto const p = micro.backward(units[u]);
          static_cast<void>(p.grad(weights[u]).accumulator());
        }
      }
      static_cast<void>(engine.step());
    }
    if (job.rank() == 0) {
      auto const all = recorder.snapshot();
      records.assign(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
    }
    static_cast<void>(engine.finish());
  });
  REQUIRE(messages_of(outcome).empty());
  Lines lines;
  for (auto const& record : records) {
    lines.push_back(line_of(record));
  }
  return lines;
}

/// The block of text under the page's heading for `stage`.
Lines on_the_page(int stage) {
  std::ifstream page{ZEROTH_DOCS "/schedule.md"};
  REQUIRE(page.good());
  auto const heading = fmt::format("## Stage {}", stage);
  Lines lines;
  bool below = false;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) {
      below = line == heading;
    } else if (below && line.starts_with("```")) {
      inside = !inside;
    } else if (below && inside) {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("a step runs as docs/schedule.md describes it") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const happened = second_step(stage);
    auto const written = on_the_page(stage);
    INFO(fmt::format("stage {}; what happened:\n{}", stage, fmt::join(happened, "\n")));
    CHECK_FALSE(written.empty());
    CHECK(happened == written);
  }
}

}  // namespace zeroth::testing
