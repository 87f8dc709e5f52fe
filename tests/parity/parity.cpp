// SPDX-License-Identifier: Apache-2.0
/// Stages 0, 1, 2 and 3 train the same, bit for bit: at every world size, dtype, reduction rule, bucket size, number of
/// slots and prefetch budget. This also holds with and without overlap, with delays in unusual places, and with freed
/// memory full of NaN.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "stage_files.hpp"
#include "support/catch.hpp"
#include "support/delayed.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"
#include "train.hpp"

namespace zeroth::testing {

TEST_CASE("stages are bit-equal") {
  auto const world = GENERATE(1, 2, 3, 4);
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  auto const accumulation = GENERATE(1, 3);
  auto const* const reduce = GENERATE("every_micro_step", "last_micro_step");
  INFO(fmt::format("{} ranks, {}, {} micro-steps, {}", world, types.name, accumulation, reduce));
  auto const base = train(world, file(types, 0, accumulation, reduce, movements[1]));
  REQUIRE(base.reports.size() == 4);
  for (auto const& report : base.reports) {
    REQUIRE(std::isfinite(report.loss));
    REQUIRE(report.grad_norm > 0);
    REQUIRE_FALSE(report.skipped);
  }
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const& move : movements) {
      static Sample sample{5};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("stage {}, bucket {}, prefetch {}, gradient slots {}, overlap {}", stage, move.bucket,
                       move.prefetch, move.gradient_slots, move.overlap));
      auto const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
      REQUIRE(bits_of(train(world, file(types, stage, accumulation, reduce, move, poison))) == bits_of(base));
    }
  }
}

TEST_CASE("stages are bit-equal with every optimizer") {
  auto const rule = GENERATE(from_range(trained_rules()));
  auto const types = GENERATE(fp32_types, bf16_types, fp16_types, bf16_masters, bf16_masters_and_moments);
  static Sample sample{3};
  if (sample.leaves_out() || (!has_bf16_states(rule) && types.name == bf16_masters_and_moments.name)) {
    return;
  }
  auto const trained = [&](int stage, Movement const& move, char const* optimizer) {
    return train(3, file(types, stage, 2, "every_micro_step", move, "", optimizer));
  };
  INFO(fmt::format("{}, {}", rule.name, types.name));
  auto const base = trained(0, movements[1], rule.optimizer);
  REQUIRE(base.reports.size() == 4);
  REQUIRE(std::isfinite(base.reports.back().loss));
  auto const other = trained(0, movements[1], rule.rule.index() == 0 ? R"("type": "SGD")" : all_rules()[0].optimizer);
  REQUIRE(bits_of(other) != bits_of(base));
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("stage {}", stage));
    REQUIRE(bits_of(trained(stage, movements[stage], rule.optimizer)) == bits_of(base));
  }
}

TEST_CASE("a program's own rule trains like the same rule of the library, at every stage") {
  auto const types = GENERATE(fp32_types, bf16_types, bf16_masters_and_moments);
  auto const text = [&](int stage, char const* optimizer) {
    return Config::from_json(file(types, stage, 2, "every_micro_step", movements[stage], "", optimizer));
  };
  auto const base = train(3, text(0, R"("type": "SGD", "params": {"momentum": 0.75, "dampening": 0.25})"));
  for (int stage = 0; stage <= 3; ++stage) {
    INFO(fmt::format("{}, stage {}", types.name, stage));
    CHECK(bits_of(train(3, text(stage, "").with(own_momentum()))) == bits_of(base));
  }
}

TEST_CASE("delays change nothing") {
  auto const world = GENERATE(2, 4);
  auto const types = GENERATE_COPY(all_types[0], all_types[1]);
  auto const base = train(world, file(types, 0, 2, "every_micro_step", movements[1]));
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const& move : movements) {
      static Sample sample{3};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{} ranks, {}, stage {}, bucket {}, overlap {}", world, types.name, stage, move.bucket,
                       move.overlap));
      TrainOptions options;
      options.waits = true;
      auto const text = file(types, stage, 2, "every_micro_step", move, R"(, "poison": true)");
      REQUIRE(bits_of(train(world, text, options, delayed)) == bits_of(base));
    }
  }
}

TEST_CASE("with one micro-step both reduction rules are the same") {
  auto const stage = GENERATE(0, 1, 2, 3);
  auto const every = train(3, file(all_types[1], stage, 1, "every_micro_step", movements[0]));
  auto const last = train(3, file(all_types[1], stage, 1, "last_micro_step", movements[0]));
  REQUIRE(bits_of(every) == bits_of(last));
}

TEST_CASE("stages are bit-equal if micro-steps are summed in fp32 before one reduction") {
  auto const world = GENERATE(1, 3);
  auto const types = GENERATE(bf16_summed_in_fp32, fp16_summed_in_fp32, bf16_summed_and_reduced_in_fp32);
  auto const base = train(world, file(types, 0, 3, "last_micro_step", movements[1]));
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const& move : movements) {
      static Sample sample{5};
      if (sample.leaves_out()) {
        continue;
      }
      INFO(fmt::format("{} ranks, {}, stage {}, bucket {}, prefetch {}, gradient slots {}, overlap {}", world,
                       types.name, stage, move.bucket, move.prefetch, move.gradient_slots, move.overlap));
      auto const poison = move.gradient_slots == 1 ? "" : R"(, "poison": true)";
      REQUIRE(bits_of(train(world, file(types, stage, 3, "last_micro_step", move, poison))) == bits_of(base));
    }
  }
}

TEST_CASE("fp32 sums equal the sums of every micro-step's reductions if those do not round") {
  // On one rank a reduction in fp32 is a copy. What remains are the same additions, by another part of the engine.
  auto const& types = bf16_summed_and_reduced_in_fp32;
  auto const stage = GENERATE(0, 1, 2, 3);
  auto const every = train(1, file(types, stage, 3, "every_micro_step", movements[2]));
  auto const last = train(1, file(types, stage, 3, "last_micro_step", movements[2]));
  auto const in_bf16 = train(1, file(bf16_reduced_in_fp32, stage, 3, "last_micro_step", movements[2]));
  CHECK(bits_of(last) == bits_of(every));
  CHECK(bits_of(last) != bits_of(in_bf16));
}

TEST_CASE("an overflow on one rank skips the update on all, and advances nothing") {
  auto const stage = GENERATE(0, 1, 2, 3);
  auto const world = GENERATE(1, 3);
  TrainOptions options;
  options.overflow_at_step = 2;
  options.evaluates = false;
  options.skips = false;
  Types const fp16{
      "fp16", R"("fp16": {"enabled": true, "initial_scale_power": 4, "loss_scale_window": 100, "hysteresis": 1},)"};
  auto const result = train(world, file(fp16, stage, 2, "every_micro_step", movements[2]), options);
  auto const& reports = result.reports;
  REQUIRE(reports.size() == 4);
  CHECK_FALSE(reports[0].skipped);
  CHECK(reports[1].skipped);
  CHECK_FALSE(reports[2].skipped);
  CHECK(reports[0].loss_scale == 16);
  CHECK(reports[1].loss_scale == 16);  // the scale that the step used
  CHECK(reports[2].loss_scale == 8);
  // The schedule did not advance over the skipped step: step 3 has the rate that step 2 would have had.
  CHECK(reports[2].learning_rate == reports[1].learning_rate);
  CHECK(reports[3].learning_rate > reports[2].learning_rate);
}

TEST_CASE("gradients are unscaled: the loss scale changes neither norm nor training beyond rounding") {
  TrainOptions options;
  options.steps = 2;
  auto const scaled = [&](int power, int stage) {
    auto text = fmt::format(R"("fp16": {{"enabled": true, "loss_scale": {}}},)", power);
    Types const types{"fp16", text.c_str()};
    return train(2, file(types, stage, 1, "every_micro_step", movements[0]), options);
  };
  for (int stage = 0; stage <= 3; ++stage) {
    auto const one = scaled(1, stage);
    auto const many = scaled(64, stage);
    CHECK(many.reports[0].grad_norm == Approx(one.reports[0].grad_norm).epsilon(1e-3));
    CHECK(many.reports[1].loss == Approx(one.reports[1].loss).epsilon(1e-3));
  }
}

}  // namespace zeroth::testing
