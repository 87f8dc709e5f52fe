// SPDX-License-Identifier: Apache-2.0
/// A step's own factors of learning rates train as a model whose options have these factors, bit for bit.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/rules.hpp"
#include "support/thrown.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {
namespace {

/// The factors that the options have, and those of a step, by its number; nullopt leaves those of the options.
struct RatePlan {
  float of_options = 1;
  std::function<std::optional<float>(int step)> of_step{};
};

/// Trains two units of a quadratic loss, whose factors of `tall` and `row` follow the plan.
std::vector<float> train_with_rates(int world, Config const& config, RatePlan const& plan, int steps = 5) {
  std::vector<float> result;
  auto const outcome = run_job(world, [&](Job& job) {
    with_precision(config, [&]<class T, class G>(Precision<T, G>) {
      Model model{5};
      auto const first = model.unit("first"), second = model.unit("second");
      ParamOptions const options{.learning_rate_factor = plan.of_options};
      auto matrix = options;
      matrix.matrix = true;
      auto const tall = model.param(first, "tall", {40, 6}, Normal{0.5F}, matrix);
      auto const row = model.param(first, "row", {333}, Normal{1}, options);
      auto const other = model.param(first, "other", {50}, Normal{1});
      auto const last = model.param(second, "last", {77}, Normal{1}, {.learning_rate_factor = 2});
      Engine<T, G> engine{job, model, config};
      std::vector<RateFactor> factors{{tall, 1}, {row, 1}};
      for (int step = 0; step < steps; ++step) {
        for (auto micro : engine.micro_steps()) {
          for (auto const unit : {first, second}) {
            static_cast<void>(micro.forward(unit));
          }
          float const seed = micro.report_loss(1);
          auto const back = [&](auto const& p, auto const& param, std::size_t size) {
            auto const* const at = p[param].data();
            auto* const gradient = p.grad(param).data();
            for (std::size_t i = 0; i < size; ++i) {
              gradient[i] = from_float<G>(seed * to_float(at[i]) * (i % 3 == 0 ? 0.5F : 1.0F));
            }
          };
          {
            auto const p = micro.backward(second);
            back(p, last, 77);
          }
          auto const p = micro.backward(first);
          back(p, tall, 240);
          back(p, row, 333);
          back(p, other, 50);
        }
        auto const factor = plan.of_step ? plan.of_step(step) : std::nullopt;
        factors[0].factor = factors[1].factor = factor.value_or(1);
        engine.step(
            {.learning_rate_factors = factor ? std::span<RateFactor const>{factors} : std::span<RateFactor const>{}});
      }
      static_cast<void>(engine.finish());
      auto const read = [&](AnyParam const& param, std::size_t size) {
        std::vector<float> values(size);
        engine.read(param, values);
        if (job.rank() == 0) {
          result.insert(result.end(), values.begin(), values.end());
        }
      };
      read(tall, 240), read(row, 333), read(other, 50), read(last, 77);
    });
  });
  REQUIRE(messages_of(outcome) == "");
  return result;
}

Config rate_file(int stage, std::string const& optimizer, std::string const& more = "", std::string const& zero = "",
                 std::string const& zeroth = "") {
  return Config::from_json(fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, {} "zero_optimization": {{"stage": {}{}}},
      "optimizer": {{"type": {}}}, "zeroth": {{"timeout_ms": 60000, "check": true{}}}}})",
      more, stage, zero, optimizer, zeroth));
}

/// A factor of the options, of every step, and of some steps only, which alternates with that of the options.
void expect_factors_like_options(std::function<Config(int stage)> const& file, std::vector<int> const& stages) {
  auto const expected = train_with_rates(2, file(stages.front()), {.of_options = 0.25F});
  auto const unchanged = train_with_rates(2, file(stages.front()), {});
  auto const alternating = train_with_rates(
      2, file(stages.front()),
      {.of_options = 0.5F, .of_step = [](int step) { return step % 2 == 0 ? std::optional{0.25F} : std::nullopt; }});
  CHECK(expected != unchanged);
  CHECK(alternating != expected);
  for (int const stage : stages) {
    INFO("stage " << stage);
    CHECK(train_with_rates(2, file(stage), {.of_step = [](int) { return std::optional{0.25F}; }}) == expected);
    CHECK(train_with_rates(2, file(stage), {.of_options = 0.25F, .of_step = [](int step) {
                                              return step % 2 == 0 ? std::nullopt : std::optional{0.5F};
                                            }}) == alternating);
  }
}

TEST_CASE("factors of learning rates of a step train like those of options, with every optimizer at every stage") {
  for (std::string const optimizer :
       {R"("AdamW", "params": {"lr": 0.125, "weight_decay": 0.1})", R"("Adam", "params": {"lr": 0.125})",
        R"("SGD", "params": {"lr": 0.125, "momentum": 0.5})", R"("Adagrad", "params": {"lr": 0.125})",
        R"("RMSprop", "params": {"lr": 0.125})", R"("Lion", "params": {"lr": 0.125})",
        R"("Lamb", "params": {"lr": 0.125})", R"("Muon", "params": {"lr": 0.125})"}) {
    INFO(optimizer);
    expect_factors_like_options([&](int stage) { return rate_file(stage, optimizer); }, {0, 1, 2, 3});
  }
  expect_factors_like_options(
      [&](int stage) {
        return rate_file(stage, R"("OneBitAdam", "params": {"lr": 0.125, "freeze_step": 2})",
                         R"("bf16": {"enabled": true},)");
      },
      {0});
}

TEST_CASE("factors of learning rates of a step hold in 16 bits, with delayed updates and states on a disk") {
  auto const adamw = R"("AdamW", "params": {"lr": 0.125, "weight_decay": 0.1})";
  expect_factors_like_options([&](int stage) { return rate_file(stage, adamw, R"("bf16": {"enabled": true},)"); },
                              {0, 3});
  expect_factors_like_options([&](int stage) { return rate_file(stage, adamw, "", "", R"(, "delayed_update": true)"); },
                              {0, 1, 2});
  Folder const folder;
  auto const disk =
      fmt::format(R"(, "offload_optimizer": {{"device": "nvme", "nvme_path": "{}"}})", folder.path().string());
  expect_factors_like_options([&](int stage) { return rate_file(stage, adamw, "", stage == 0 ? "" : disk); },
                              {0, 2, 3});
}

TEST_CASE("invalid factors of learning rates are rejected by name, and ranks that give different ones get an error") {
  auto const with = [](int world, std::function<void(Job&, AnyEngine&, Param<1> const&, Param<1> const&)> const& use) {
    return messages_of(run_job(world, [&](Job& job) {
      Model model{1};
      auto const unit = model.unit("unit");
      auto const w = model.param(unit, "w", {8}, Constant{1});
      auto const frozen = model.param(unit, "frozen", {8}, Constant{1}, {.trainable = false});
      AnyEngine engine{job, model, rate_file(0, R"("AdamW", "params": {"lr": 0.125})")};
      for (int step = 0; step < 3; ++step) {
        for (auto micro : engine.micro_steps()) {
          micro.skip();
        }
        use(job, engine, w, frozen);
      }
      engine.finish();
    }));
  };
  auto const one = [&](auto const& make) {
    return with(1, [&](Job&, AnyEngine& engine, auto const& w, auto const& frozen) {
      std::vector<RateFactor> const factors = make(w, frozen);
      engine.step({.learning_rate_factors = factors});
    });
  };
  using Factors = std::vector<RateFactor>;
  using Catch::Contains;
  CHECK_THAT(one([](auto const& w, auto const&) {
               return Factors{{w, -1}};
             }),
             Contains("step() with learning_rate_factors: that of \"w\" is -1, must be 0 or more and finite"));
  CHECK_THAT(one([](auto const& w, auto const&) { return Factors{{w, NAN}}; }), Contains("that of \"w\" is nan"));
  CHECK_THAT(one([](auto const&, auto const& frozen) {
               return Factors{{frozen, 1}};
             }),
             Contains("parameter \"frozen\" is frozen"));
  CHECK_THAT(one([](auto const& w, auto const&) {
               return Factors{{w, 1}, {w, 2}};
             }),
             Contains("parameter \"w\" is in the list twice"));
  CHECK(one([](auto const& w, auto const&) { return Factors{{w, 0}}; }) == "");
  CHECK_THAT(with(2,
                  [](Job& job, AnyEngine& engine, auto const& w, auto const&) {
                    Factors const factors{{w, job.rank() == 0 ? 0.5F : 0.25F}};
                    engine.step({.learning_rate_factors = factors});
                  }),
             Contains("a learning_rate_factor of 0.5"));
}

}  // namespace
}  // namespace zeroth::testing
