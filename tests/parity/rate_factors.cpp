// SPDX-License-Identifier: Apache-2.0
/// Training with changed learning-rate factors equals training of a model whose options have them, bit for bit.
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/rules.hpp"
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
      for (int step = 0; step < steps; ++step) {
        if (plan.of_step) {
          auto const factor = plan.of_step(step).value_or(plan.of_options);
          engine.set_learning_rate_factors([factor](std::string const& name) {
            return name == "tall" || name == "row" ? std::optional{factor} : std::nullopt;
          });
        }
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
        engine.step();
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

/// Compares a factor in the options, one set in every step, and one set in some steps, which alternates with that of
/// the options.
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

TEST_CASE("factors of learning rates that change train like those of options, with every optimizer at every stage") {
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

TEST_CASE("factors of learning rates that change hold in 16 bits, with delayed updates and states on a disk") {
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

}  // namespace
}  // namespace zeroth::testing
