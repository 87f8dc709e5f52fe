// SPDX-License-Identifier: Apache-2.0
/// Extreme models: tiny ones, ones without trainable or any parameters, and ones that only reuse units.
#include <bit>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

struct OddModel {
  Model model{17};
  struct Use {
    Unit unit;
    std::vector<Param<1>> trained;
    int uses = 1;
  };
  std::vector<Use> units;
};

struct Result {
  std::vector<StepReport> reports;
  std::vector<float> values;
  bool planned = false;
};

void train_micro_step(MicroStep<float, float>& micro, OddModel const& odd) {
  for (auto const& use : odd.units) {
    for (int i = 0; i < use.uses; ++i) {
      auto const p = micro.forward(use.unit);
    }
  }
  float const seed = micro.report_loss(loss_of(micro.first_sample()));
  for (auto use = odd.units.rbegin(); use != odd.units.rend(); ++use) {
    for (int i = 0; i < use->uses; ++i) {
      auto const p = micro.backward(use->unit);
      for (auto const& param : use->trained) {
        contribute(p, param, micro.first_sample() + i, seed);
      }
    }
  }
}

Result train(Job& job, OddModel const& odd, Config const& config) {
  Result result;
  Engine<float> engine{job, odd.model, config};
  for (int step = 0; step < 3; ++step) {
    for (auto micro : engine.micro_steps()) {
      train_micro_step(micro, odd);
    }
    if (auto const report = engine.step()) {
      result.reports.push_back(*report);
    }
  }
  result.reports.push_back(engine.finish().value());
  for (auto pass : engine.evaluation(1)) {
    for (auto const& use : odd.units) {
      auto const p = pass.forward(use.unit);
      for (auto const& param : use.trained) {
        auto const view = p[param];
        result.values.insert(result.values.end(), view.data(), view.data() + view.count());
      }
    }
    pass.report_loss(1);
  }
  result.planned = engine.planned() == engine.peak();
  return result;
}

/// Trains at every stage and returns rank 0's result of the last one. All stages and ranks must agree, and match the
/// plan.
Result train_everywhere(int world, OddModel const& odd) {
  Result first;
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const prefetch : {"0", "1000"}) {
      INFO(fmt::format("stage {}, {} ranks, prefetch {}", stage, world, prefetch));
      auto const config =
          small_config(stage, {.zero = fmt::format(R"(, "stage3_prefetch_bucket_size": {})", prefetch),
                               .zeroth = R"(, "poison": true, "reduce_gradients": "every_micro_step")"});
      std::vector<Result> results(static_cast<std::size_t>(world));
      auto const outcome =
          run_job(world, [&](Job& job) { results[static_cast<std::size_t>(job.rank())] = train(job, odd, config); });
      REQUIRE(messages_of(outcome) == "");
      if (stage == 0) {
        first = results.front();
      }
      for (auto const& result : results) {
        CHECK(result.planned);
        CHECK(result.values == first.values);
        REQUIRE(result.reports.size() == 3);
        for (std::size_t step = 0; step < 3; ++step) {
          CHECK(result.reports[step].loss == first.reports[step].loss);
          CHECK(result.reports[step].grad_norm == first.reports[step].grad_norm);
          CHECK(result.reports[step].skipped == first.reports[step].skipped);
        }
      }
    }
  }
  return first;
}

}  // namespace

TEST_CASE("a single parameter of one element trains on four ranks and on seven") {
  for (int const world : {1, 4, 7}) {
    OddModel odd;
    auto const unit = odd.model.unit("u");
    odd.units.push_back({unit, {odd.model.param(unit, "w", {1}, Constant{0.5F})}});
    auto const result = train_everywhere(world, odd);
    REQUIRE(result.values.size() == 1);
    CHECK(result.values[0] != 0.5F);
    CHECK(result.reports[0].grad_norm > 0);
  }
}

TEST_CASE("a model with nothing to train runs, and has no gradient") {
  for (int const world : {1, 3}) {
    OddModel odd;
    for (auto const* const name : {"a", "b"}) {
      auto const unit = odd.model.unit(name);
      static_cast<void>(odd.model.param(unit, std::string{name} + ".w", {200}, Normal{1}, {.trainable = false}));
      odd.units.push_back({unit, {}});
    }
    auto const result = train_everywhere(world, odd);
    for (auto const& report : result.reports) {
      CHECK(report.grad_norm == 0);
      CHECK(report.loss > 0);
      CHECK_FALSE(report.skipped);
      CHECK(report.reduced_bytes == 0);
    }
  }
}

TEST_CASE("a model without units runs") {
  auto const result = train_everywhere(2, OddModel{});
  CHECK(result.reports[0].loss > 0);
  CHECK(result.reports[0].grad_norm == 0);
}

TEST_CASE("an empty unit takes its turns") {
  OddModel odd;
  auto const first = odd.model.unit("first");
  odd.units.push_back({first, {odd.model.param(first, "first.w", {300}, Normal{1})}});
  odd.units.push_back({odd.model.unit("empty"), {}});
  auto const last = odd.model.unit("last");
  odd.units.push_back({last, {odd.model.param(last, "last.w", {10}, Normal{1})}});
  odd.units.push_back({odd.model.unit("empty too"), {}});
  CHECK(train_everywhere(3, odd).values.size() == 310);
}

TEST_CASE("a single unit that is used three times trains") {
  for (int const world : {1, 2}) {
    OddModel odd;
    auto const unit = odd.model.unit("cell", {.uses_per_micro_step = 3});
    odd.units.push_back({unit, {odd.model.param(unit, "cell.w", {333}, Normal{1})}, 3});
    auto const thrice = train_everywhere(world, odd);
    CHECK(thrice.reports[0].grad_norm > 0);
  }
}

TEST_CASE("a unit that holds only shared parameters, and one that all others share, train") {
  OddModel odd;
  auto const first = odd.model.unit("first");
  auto const shared = odd.model.param(first, "shared", {500}, Normal{1});
  odd.units.push_back({first, {shared}});
  for (auto const* const name : {"second", "third"}) {
    auto const unit = odd.model.unit(name, {.uses_per_micro_step = 2});
    odd.model.tie(unit, shared);
    odd.units.push_back({unit, {shared}, 2});
  }
  CHECK(train_everywhere(3, odd).values.size() == 1500);
}

TEST_CASE("a unit whose gradient is never requested has gradient zero, and decays") {
  OddModel odd;
  auto const unit = odd.model.unit("u");
  auto const asked = odd.model.param(unit, "asked", {100}, Constant{1});
  auto const never = odd.model.param(unit, "never", {100}, Constant{1});
  odd.units.push_back({unit, {asked}});
  auto const silent = odd.model.unit("silent");
  static_cast<void>(odd.model.param(silent, "silent.w", {100}, Constant{1}));
  odd.units.push_back({silent, {}});
  train_everywhere(2, odd);
  std::vector<float> decayed;
  auto const outcome = run_job(1, [&](Job& job) {
    Engine<float> engine{job, odd.model, small_config(3)};
    for (auto micro : engine.micro_steps()) {
      train_micro_step(micro, odd);
    }
    engine.step();
    for (auto pass : engine.evaluation(1)) {
      auto const p = pass.forward(unit);
      decayed.push_back(p[never].data()[0]);
      pass.report_loss(0);
    }
    engine.finish();
  });
  REQUIRE(messages_of(outcome) == "");
  REQUIRE(decayed.size() == 1);
  CHECK(decayed[0] == Approx(1 - 0.01 * 0.1));  // lr times weight decay, with a gradient of zero
}

TEST_CASE("more ranks than elements in any unit, and poisoned memory, change nothing") {
  OddModel odd;
  for (int u = 0; u < 5; ++u) {
    auto const name = fmt::format("u{}", u);
    auto const unit = odd.model.unit(name);
    odd.units.push_back({unit, {odd.model.param(unit, name + ".w", {1 + u}, Normal{1})}});
  }
  CHECK(train_everywhere(8, odd).values.size() == 15);
}

}  // namespace zeroth::testing
