// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/step_scalars.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"

namespace zeroth::optim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

StepRules rules_of(float clip) {
  StepRules rules;
  rules.clip = clip;
  rules.schedule.base = 0.5F;
  return rules;
}

StepRules fp16_rules() {
  StepRules rules;
  rules.loss_scale.dynamic = true;
  rules.loss_scale.initial = 1024;
  rules.loss_scale.hysteresis = 1;
  rules.loss_scale.window = 2;
  rules.schedule = {};
  rules.schedule.kind = ScheduleKind::warmup;
  rules.schedule.warmup = WarmupKind::linear;
  rules.schedule.warmup_steps = 10;
  rules.schedule.warmup_max = 1;
  return rules;
}

StepScalars start(StepRules const& rules) {
  StepScalars scalars;
  scalars.loss_scale = initial_state(rules.loss_scale);
  return scalars;
}

StepSums sums_of(double norm, double weight) { return {norm * norm, 3 * weight, weight, 0}; }

TEST_CASE("the gradient is divided by weight, loss scale and prescale at once") {
  auto rules = rules_of(0);
  rules.loss_scale.initial = 8;
  rules.gradient_prescale = 0.25F;
  auto scalars = start(rules);
  advance(rules, sums_of(6, 12), scalars);
  CHECK(scalars.gradient_scale == static_cast<float>(1.0 / 24));
  CHECK(scalars.gradient_norm == 0.25F);
  CHECK(scalars.loss == 3);
  CHECK(scalars.loss_scale_used == 8);
  CHECK(scalars.learning_rate == 0.5F);
  CHECK(scalars.applied == 1);
  CHECK_FALSE(scalars.skip);
  CHECK_FALSE(scalars.stop);
}

TEST_CASE("gradients of another loss scale than the state's are divided by theirs") {
  auto rules = rules_of(0);
  rules.loss_scale.initial = 4;
  rules.loss_scale_used = 16;
  auto scalars = start(rules);
  advance(rules, sums_of(32, 2), scalars);
  CHECK(scalars.gradient_scale == static_cast<float>(1.0 / 32));
  CHECK(scalars.gradient_norm == 1);
  CHECK(scalars.loss_scale_used == 16);
  CHECK(scalars.loss_scale.scale == 4);
}

TEST_CASE("clipping bounds the norm of the combined gradient and leaves smaller ones alone") {
  auto const rules = rules_of(1);
  auto scalars = start(rules);
  advance(rules, sums_of(20, 4), scalars);  // norm 5
  CHECK(scalars.gradient_norm == 5);
  CHECK(scalars.gradient_scale == static_cast<float>(0.25 / (5 + 1e-6)));
  advance(rules, sums_of(3.9, 4), scalars);
  CHECK(scalars.gradient_scale == 0.25F);
  advance(rules, sums_of(0, 4), scalars);
  CHECK(scalars.gradient_scale == 0.25F);
  CHECK(scalars.gradient_norm == 0);
}

TEST_CASE("bias corrections count applied updates") {
  StepRules const rules;
  auto scalars = start(rules);
  for (int update = 1; update <= 5; ++update) {
    advance(rules, sums_of(1, 1), scalars);
    CHECK(scalars.bias_correction1 == static_cast<float>(1 - std::pow(static_cast<double>(rules.betas[0]), update)));
    CHECK(scalars.bias_correction2_sqrt ==
          static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(rules.betas[1]), update))));
  }
  CHECK(scalars.applied == 5);

  StepRules plain;
  plain.betas = {0, 0};
  advance(plain, sums_of(1, 1), scalars);
  CHECK(scalars.bias_correction1 == 1);
  CHECK(scalars.bias_correction2_sqrt == 1);
}

TEST_CASE("a gradient that is not finite skips the update, and only the loss scale moves") {
  auto const rules = fp16_rules();
  for (double const bad : {infinity, std::nan("")}) {
    auto scalars = start(rules);
    advance(rules, sums_of(1, 1), scalars);
    advance(rules, sums_of(1, 1), scalars);
    advance(rules, sums_of(1, 1), scalars);
    CHECK(scalars.applied == 3);
    CHECK(scalars.loss_scale.scale == 2048);  // two good steps after the first
    auto const before = scalars;

    advance(rules, {bad, 2, 1, 0}, scalars);
    CHECK(scalars.skip);
    CHECK(scalars.nonfinite);
    CHECK(scalars.gradient_scale == 0);
    CHECK(scalars.applied == 3);
    CHECK(scalars.loss_scale_used == 2048);
    CHECK(scalars.loss_scale.scale == 1024);
    CHECK(scalars.loss == 2);
    CHECK_FALSE(std::isfinite(scalars.gradient_norm));
    // The rate is that of the fourth update, which is still to come.
    auto const reported = scalars.learning_rate;
    CHECK(reported > before.learning_rate);
    advance(rules, sums_of(1, 1), scalars);
    CHECK_FALSE(scalars.nonfinite);
    CHECK(scalars.learning_rate == reported);
    CHECK(scalars.applied == 4);
    CHECK(scalars.loss_scale_used == 1024);
    CHECK(scalars.gradient_scale == 1.0F / 1024);
  }
}

TEST_CASE("overflow at the smallest scale exhausts") {
  auto rules = fp16_rules();
  rules.loss_scale.initial = 1;
  auto scalars = start(rules);
  advance(rules, {infinity, 0, 1, 0}, scalars);
  CHECK(scalars.skip);
  CHECK(scalars.loss_scale.exhausted);
  CHECK(scalars.loss_scale.scale == 1);
}

TEST_CASE("what is not finite goes through where the rules say so") {
  auto rules = rules_of(0);
  rules.skip_nonfinite = false;
  auto scalars = start(rules);
  advance(rules, {infinity, 0, 1, 0}, scalars);
  CHECK_FALSE(scalars.skip);
  CHECK(scalars.nonfinite);
  CHECK(scalars.applied == 1);
  CHECK(scalars.gradient_scale == 1);
}

TEST_CASE("a static scale skips but does not move") {
  auto rules = rules_of(0);
  rules.loss_scale.initial = 16;
  auto scalars = start(rules);
  advance(rules, {infinity, 0, 1, 0}, scalars);
  CHECK(scalars.skip);
  CHECK(scalars.loss_scale.scale == 16);
  CHECK_FALSE(scalars.loss_scale.exhausted);
}

TEST_CASE("a step without any weight is skipped and is no news for the loss scale") {
  auto const rules = fp16_rules();
  auto scalars = start(rules);
  for (double const squares : {0.0, infinity}) {
    advance(rules, {squares, 0, 0, 0}, scalars);
    CHECK(scalars.skip);
    CHECK_FALSE(scalars.nonfinite);
    CHECK(scalars.applied == 0);
    CHECK(scalars.loss == 0);
    CHECK(scalars.gradient_norm == 0);
    CHECK(scalars.loss_scale.scale == 1024);
    CHECK(scalars.loss_scale.iteration == 0);
    CHECK(scalars.loss_scale.last_overflow == -1);
  }
}

TEST_CASE("a rate that the caller gave holds for that step only") {
  auto rules = fp16_rules();
  auto scalars = start(rules);
  rules.has_learning_rate = true;
  rules.given_learning_rate = 0.125F;
  advance(rules, sums_of(1, 1), scalars);
  CHECK(scalars.learning_rate == 0.125F);
  rules.has_learning_rate = false;
  advance(rules, sums_of(1, 1), scalars);
  CHECK(scalars.learning_rate == learning_rate(rules.schedule, 1));
}

TEST_CASE("stop is reported, also by a step that is skipped") {
  auto const rules = rules_of(0);
  auto scalars = start(rules);
  advance(rules, {1, 0, 1, 2}, scalars);
  CHECK(scalars.stop);
  advance(rules, {1, 0, 1, 0}, scalars);
  CHECK_FALSE(scalars.stop);
  advance(rules, {0, 0, 0, 1}, scalars);
  CHECK(scalars.stop);
}

TEST_CASE("norms beyond the range of fp32 squares are kept") {
  auto const rules = rules_of(1);
  auto scalars = start(rules);
  advance(rules, {1e40, 0, 1, 0}, scalars);
  CHECK(scalars.gradient_norm == 1e20F);
  CHECK_FALSE(scalars.skip);
  CHECK(scalars.gradient_scale == Approx(1e-20));
}

}  // namespace
}  // namespace zeroth::optim
