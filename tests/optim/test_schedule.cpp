// SPDX-License-Identifier: Apache-2.0
/// The expected rates are what DeepSpeed 0.19.8's schedulers put into the optimizer before updates 1, 2, 3, ... when
/// they are constructed first and stepped after every update, as its engine does.
#include "zeroth/optim/learning_rate_schedule.hpp"

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

namespace zeroth::optim {
namespace {

LearningRateSchedule warmup(ScheduleKind kind, WarmupKind shape, std::int64_t warmup_steps, std::int64_t total_steps) {
  LearningRateSchedule schedule;
  schedule.kind = kind;
  schedule.warmup = shape;
  schedule.base = 2e-3F;
  schedule.warmup_min = 1e-4F;
  schedule.warmup_max = 1e-3F;
  schedule.warmup_steps = warmup_steps;
  schedule.total_steps = total_steps;
  schedule.warmup_min_ratio = 0.1F;
  schedule.cosine_min_ratio = 0.05F;
  return schedule;
}

void check(LearningRateSchedule const& schedule, std::vector<double> const& expected) {
  for (std::size_t applied = 0; applied < expected.size(); ++applied) {
    INFO("after " << applied << " updates");
    CHECK(static_cast<double>(learning_rate(schedule, static_cast<std::int64_t>(applied))) ==
          Approx(expected[applied]).epsilon(2e-7).margin(1e-12));
  }
}

TEST_CASE("a constant schedule is the optimizer's rate for ever") {
  LearningRateSchedule schedule;
  schedule.base = 0.25F;
  CHECK(learning_rate(schedule, 0) == 0.25F);
  CHECK(learning_rate(schedule, 1'000'000'000'000) == 0.25F);
}

TEST_CASE("WarmupLR starts twice at the minimum and stays at the maximum") {
  check(warmup(ScheduleKind::warmup, WarmupKind::logarithmic, 5, 0),
        {1e-4, 1e-4, 0.00048760890226605375, 0.0007143455750373869, 0.0008752178045321076, 1e-3, 1e-3, 1e-3, 1e-3});
  check(warmup(ScheduleKind::warmup, WarmupKind::linear, 5, 0),
        {1e-4, 1e-4, 2.8e-4, 4.6e-4, 6.4e-4, 8.2e-4, 1e-3, 1e-3, 1e-3});
}

TEST_CASE("a warmup of one step is one of two") {
  check(warmup(ScheduleKind::warmup, WarmupKind::logarithmic, 1, 0), {1e-4, 1e-4, 1e-3, 1e-3, 1e-3});
}

TEST_CASE("WarmupDecayLR goes down in a line to the minimum and stays there") {
  check(warmup(ScheduleKind::warmup_decay, WarmupKind::logarithmic, 4, 10),
        {1e-4, 1e-4, 5.5e-4, 0.0008132331253245204, 1e-3, 1e-3, 8.5e-4, 7e-4, 5.5e-4, 4e-4, 2.5e-4, 1e-4, 1e-4, 1e-4});
  check(warmup(ScheduleKind::warmup_decay, WarmupKind::linear, 4, 10),
        {1e-4, 1e-4, 3.25e-4, 5.5e-4, 7.75e-4, 1e-3, 8.5e-4, 7e-4, 5.5e-4, 4e-4, 2.5e-4, 1e-4, 1e-4, 1e-4});
}

TEST_CASE("WarmupDecayLR with fewer steps than its warmup drops to the minimum behind it") {
  check(warmup(ScheduleKind::warmup_decay, WarmupKind::logarithmic, 5, 3),
        {1e-4, 1e-4, 0.00048760890226605375, 0.0007143455750373869, 0.0008752178045321076, 1e-3, 1e-4, 1e-4});
}

TEST_CASE("WarmupCosineLR starts at zero, then at its ratio, and ends at its floor") {
  std::vector<double> const decay{0.001872724133595217,   0.001525, 0.00105, 0.000575,
                                  0.00022727586640478324, 1e-4,     1e-4,    1e-4};
  std::vector<double> logarithmic{0.0, 2e-4, 1.1e-3, 0.0016264662506490406, 2e-3};
  logarithmic.insert(logarithmic.end(), decay.begin(), decay.end());
  check(warmup(ScheduleKind::warmup_cosine, WarmupKind::logarithmic, 4, 10), logarithmic);
  std::vector<double> linear{0.0, 2e-4, 6.5e-4, 1.1e-3, 1.55e-3};
  linear.insert(linear.end(), decay.begin(), decay.end());
  check(warmup(ScheduleKind::warmup_cosine, WarmupKind::linear, 4, 10), linear);
}

TEST_CASE("WarmupCosineLR with fewer steps than its warmup drops to the floor behind it") {
  check(warmup(ScheduleKind::warmup_cosine, WarmupKind::logarithmic, 5, 3),
        {0.0, 2e-4, 0.0009752178045321076, 0.0014286911500747737, 0.0017504356090642151, 2e-3, 1e-4, 1e-4});
}

TEST_CASE("OneCycle rises, falls, and decays from its lower rate") {
  LearningRateSchedule schedule;
  schedule.kind = ScheduleKind::one_cycle;
  schedule.cycle_min = 1e-4F;
  schedule.cycle_max = 1e-3F;
  schedule.cycle_first = 3;
  schedule.cycle_second = 2;
  schedule.decay_interval = 2;
  schedule.decay_rate = 1;
  check(schedule, {1e-4, 4e-4, 7e-4, 1e-3, 5.5e-4, 1e-4, 1e-4 / 1.5, 5e-5, 4e-5});
  schedule.decay_interval = 0;
  schedule.cycle_first = 4;
  schedule.cycle_first_stairs = 2;
  schedule.cycle_second = 4;
  schedule.cycle_second_stairs = 1;
  check(schedule, {1e-4, 1e-4, 5.5e-4, 5.5e-4, 1e-3, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4});
}

TEST_CASE("LRRangeTest rises for ever, evenly or by stairs") {
  LearningRateSchedule schedule;
  schedule.kind = ScheduleKind::range_test;
  schedule.range_min = 1e-3F;
  schedule.range_rate = 2;
  schedule.range_interval = 4;
  check(schedule, {1e-3, 1.5e-3, 2e-3, 2.5e-3, 3e-3, 3.5e-3});
  schedule.range_staircase = true;
  check(schedule, {1e-3, 1e-3, 1e-3, 1e-3, 3e-3, 3e-3, 3e-3, 3e-3, 5e-3});
}

}  // namespace
}  // namespace zeroth::optim
