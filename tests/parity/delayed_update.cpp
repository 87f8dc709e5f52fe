// SPDX-License-Identifier: Apache-2.0
/// With zeroth.delayed_update stages 0 to 2 train the same, bit for bit, and a pass reads the parameters after the step
/// before the last one.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/delayed.hpp"
#include "support/folder.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

constexpr auto const* late = R"(, "delayed_update": true)";
constexpr auto const* late_and_poisoned = R"(, "delayed_update": true, "poison": true)";

/// Saves after each step, and again after a restore.
TrainOptions saves_each_step(std::filesystem::path const& folder) {
  TrainOptions options;
  options.steps = 6;
  options.evaluates = false;
  options.after_step = [folder](AnyEngine& engine, int /*step*/) { engine.save(folder).wait(); };
  return options;
}

}  // namespace

TEST_CASE("stages are bit-equal with delayed updates") {
  auto const world = GENERATE(1, 2, 3, 4);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const accumulation = GENERATE(1, 3);
  auto const* const reduce = GENERATE("every_micro_step", "last_micro_step");
  static Sample of_bases{2};
  if (of_bases.leaves_out()) {
    return;
  }
  INFO(fmt::format("{} ranks, {}, {} micro-steps, {}", world, types.name, accumulation, reduce));
  auto const base = train(world, file(types, 0, accumulation, reduce, movements[1], late));
  REQUIRE(base.reports.size() == 4);
  REQUIRE(std::isfinite(base.reports.back().loss));
  REQUIRE(bits_of(base) != bits_of(train(world, file(types, 0, accumulation, reduce, movements[1]))));
  for (int stage = 0; stage <= 2; ++stage) {
    for (auto const& move : movements) {
      static Sample sample{5};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("stage {}, bucket {}, gradient slots {}, overlap {}", stage, move.bucket, move.gradient_slots,
                       move.overlap));
      TrainOptions options;
      options.waits = move.overlap && stage == 2;
      auto const text =
          file(types, stage, accumulation, reduce, move, move.gradient_slots == 1 ? late : late_and_poisoned);
      REQUIRE(bits_of(train(world, text, options, options.waits ? Wrap{delayed} : Wrap{})) == bits_of(base));
    }
  }
}

TEST_CASE("stages are bit-equal with delayed updates, with every optimizer and codec that has them") {
  auto const rule = GENERATE(from_range(all_rules()));
  static Sample sample{2};
  if (sample.leaves_out()) {
    return;
  }
  for (auto const* const codec : {"none", "exact", "int8", "sign"}) {
    INFO(fmt::format("{}, {}", rule.name, codec));
    auto const trained = [&](int stage) {
      return train(
          3, file(bf16_types, stage, 2, "every_micro_step", movements[2],
                  fmt::format(R"({}, "reduce_codec": "{}", "gather_codec": "int8")", late, codec), rule.optimizer));
    };
    auto const base = trained(0);
    REQUIRE(std::isfinite(base.reports.back().loss));
    for (int stage = 1; stage <= (std::string{"sign"} == codec ? 1 : 2); ++stage) {
      REQUIRE(bits_of(trained(stage)) == bits_of(base));
    }
  }
}

TEST_CASE("a program's own rule may be delayed") {
  auto const trained = [&](int stage) {
    return train(
        3,
        Config::from_json(file(bf16_types, stage, 2, "every_micro_step", movements[0], late, "")).with(own_momentum()));
  };
  auto const base = train(3, file(bf16_types, 0, 2, "every_micro_step", movements[0], late,
                                  R"("type": "SGD", "params": {"momentum": 0.75, "dampening": 0.25})"));
  for (int stage = 0; stage <= 2; ++stage) {
    CHECK(bits_of(trained(stage)) == bits_of(base));
  }
}

TEST_CASE("a program's own rule that throws in a delayed update ends the job on all ranks") {
  for (bool const overlap : {false, true}) {
    auto rule = own_momentum();
    rule.update = [](optim::CustomRuleElements const& e) {
      if (e.applied == 2) {
        throw std::runtime_error{"the rule gives up"};
      }
    };
    Movement const move{500'000'000, 0, 2, overlap};
    auto const config = Config::from_json(file(fp32_types, 1, 1, "every_micro_step", move, late, "")).with(rule);
    auto const outcome = run_job(3, [&](Job& job) { static_cast<void>(train_synthetic(job, config, {.steps = 6})); });
    CHECK_THAT(messages_of(outcome), Catch::Contains("the rule gives up"));
    CHECK(std::ranges::all_of(outcome, [](std::exception_ptr const& error) { return error != nullptr; }));
  }
}

TEST_CASE("a job that finishes each step has no delay") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types, bf16_masters);
  auto const* const reduce = GENERATE("every_micro_step", "last_micro_step");
  for (int stage = 0; stage <= 2; ++stage) {
    INFO(fmt::format("stage {}, {}, {}", stage, types.name, reduce));
    TrainOptions options;
    options.after_step = [](AnyEngine& engine, int /*step*/) { static_cast<void>(engine.finish()); };
    auto const trained = [&](char const* more) {
      return train(3, file(types, stage, 2, reduce, movements[stage], more), options);
    };
    auto const plain = trained("");
    auto const finished = trained(late);
    CHECK(bits_of(finished.parameters) == bits_of(plain.parameters));
    CHECK(bits_of(finished.evaluations) == bits_of(plain.evaluations));
  }
}

TEST_CASE("a job that saves each step trains the same after a restore of any of them, at any of these stages") {
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types);
  for (int stage = 0; stage <= 2; ++stage) {
    Folder const folder;
    auto const options = saves_each_step(folder.path());
    auto const whole = train(3, file(types, stage, 2, "every_micro_step", movements[stage], late), options);
    for (int saved = 1; saved < options.steps; ++saved) {
      INFO(fmt::format("stage {}, {}, from step {}", stage, types.name, saved));
      Folder const others;
      auto resumed = saves_each_step(others.path());
      resumed.begin = [&](AnyEngine& engine) {
        return static_cast<int>(engine.restore(folder.path() / fmt::format("step_{:08}", saved)).step);
      };
      auto const other_stage = (stage + saved) % 3;
      auto const trained =
          train(3, file(types, other_stage, 2, "every_micro_step", movements[saved % 4], late), resumed);
      CHECK(bits_of(trained.parameters) == bits_of(whole.parameters));
      REQUIRE(trained.reports.size() + static_cast<std::size_t>(saved) == whole.reports.size());
      CHECK(trained.reports.back().loss_scale == whole.reports.back().loss_scale);
      CHECK(trained.reports.back().loss == whole.reports.back().loss);
    }
  }
}

TEST_CASE("a pass reads what the step before the last one left") {
  // One parameter, whose gradient is its value, and plain SGD.
  for (int stage = 0; stage <= 2; ++stage) {
    std::vector<float> read;
    auto const config = Config::from_json(fmt::format(
        R"({{"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": {{"stage": {}, "overlap_comm": true}},
             "optimizer": {{"type": "SGD", "params": {{"lr": 0.25}}}},
             "zeroth": {{"delayed_update": true, "timeout_ms": 60000}}}})",
        stage));
    auto const outcome = run_job(2, [&](Job& job) {
      Model model;
      auto const unit = model.unit("unit");
      auto const param = model.param(unit, "w", {1}, Constant{1});
      Engine<float> engine{job, model, config};
      for (int step = 0; step < 6; ++step) {
        for (auto micro : engine.micro_steps()) {
          float value = 0;
          {
            auto const p = micro.forward(unit);
            value = *p[param].data();
          }
          if (job.rank() == 0) {
            read.push_back(value);
          }
          float const seed = micro.report_loss(0.5F * value * value);
          auto const p = micro.backward(unit);
          auto const gradient = p.grad(param);
          *gradient.data() = (gradient.beta() == 0 ? 0 : *gradient.data()) + seed * value;
        }
        engine.step();
      }
      static_cast<void>(engine.finish());
      std::vector<float> values(1);
      engine.read(param, values);
      if (job.rank() == 0) {
        read.push_back(values.front());
      }
    });
    REQUIRE(messages_of(outcome) == "");
    std::vector<float> expected{1, 1};  // before steps 1 and 2; step s reads what the first s - 2 updates left
    for (std::size_t update = 0; update < 5; ++update) {
      expected.push_back(expected[update + 1] - 0.25F * expected[update]);
    }
    // The last value is read after finish(), which applies the sixth update.
    CHECK(std::vector<float>(read.begin(), read.end() - 1) ==
          std::vector<float>(expected.begin(), expected.begin() + 6));
    CHECK(read.back() == expected[6] - 0.25F * expected[5]);
  }
}

}  // namespace zeroth::testing
