// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of learning_rate(), shared by the CPU and the GPU's scalar kernel.
#pragma once
#include "core/exact_math.hpp"
#include "zeroth/optim/learning_rate_schedule.hpp"

namespace zeroth::optim::arithmetic {

/// The progress of the warmup at scheduler step `step` of `steps`: 0 at the start, and 1, or nearly 1, at the end.
ZEROTH_HOST_DEVICE inline double warmup_fraction(WarmupKind kind, double step, double steps) noexcept {
  return kind == WarmupKind::linear ? step / steps : logarithm(step + 1) / logarithm(steps);
}

/// The height of the cycle after `position` of its updates: from 0 to 1 and back.
ZEROTH_HOST_DEVICE inline double cycle_height(LearningRateSchedule const& schedule, std::int64_t position) noexcept {
  bool const rises = position <= schedule.cycle_first;
  std::int64_t const stairs = rises ? schedule.cycle_first_stairs : schedule.cycle_second_stairs;
  std::int64_t const length = rises ? schedule.cycle_first : schedule.cycle_second;
  std::int64_t const reached = rises ? position : schedule.cycle_first + schedule.cycle_second - position;
  if (stairs > 0) {
    std::int64_t const climbed = reached * stairs / length;
    return static_cast<double>(climbed) / static_cast<double>(stairs);
  }
  return static_cast<double>(reached) / static_cast<double>(length);
}

ZEROTH_HOST_DEVICE inline double one_cycle(LearningRateSchedule const& schedule, std::int64_t applied) noexcept {
  auto const low = static_cast<double>(schedule.cycle_min);
  std::int64_t const length = schedule.cycle_first + schedule.cycle_second;
  if (applied < length) {
    return low + (static_cast<double>(schedule.cycle_max) - low) * cycle_height(schedule, applied);
  }
  if (schedule.decay_interval == 0) {
    return low;
  }
  double const intervals = static_cast<double>(applied - length) / static_cast<double>(schedule.decay_interval);
  return low / (1 + static_cast<double>(schedule.decay_rate) * intervals);
}

ZEROTH_HOST_DEVICE inline double range_test(LearningRateSchedule const& schedule, std::int64_t applied) noexcept {
  std::int64_t const whole = applied / schedule.range_interval;
  double const intervals = schedule.range_staircase
                               ? static_cast<double>(whole)
                               : static_cast<double>(applied) / static_cast<double>(schedule.range_interval);
  return static_cast<double>(schedule.range_min) * (1 + static_cast<double>(schedule.range_rate) * intervals);
}

ZEROTH_HOST_DEVICE inline double cosine_annealing(LearningRateSchedule const& schedule, std::int64_t applied) noexcept {
  std::int64_t const total = schedule.total_steps, position = applied % (2 * total);
  std::int64_t const from_top = position < total ? position : 2 * total - position;
  double const wave = raised_cosine(static_cast<double>(from_top) / static_cast<double>(total));
  return schedule.eta_min + (static_cast<double>(schedule.base) - schedule.eta_min) * wave;
}

ZEROTH_HOST_DEVICE inline double linear_factor(LearningRateSchedule const& schedule, std::int64_t applied) noexcept {
  std::int64_t const reached = applied < schedule.total_steps ? applied : schedule.total_steps;
  double const fraction = static_cast<double>(reached) / static_cast<double>(schedule.total_steps);
  return schedule.start_factor + (schedule.end_factor - schedule.start_factor) * fraction;
}

ZEROTH_HOST_DEVICE inline std::int64_t milestones_passed(LearningRateSchedule const& schedule,
                                                         std::int64_t applied) noexcept {
  std::int64_t passed = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(schedule.milestone_count); ++i) {
    passed += schedule.milestones[i] <= applied ? 1 : 0;
  }
  return passed;
}

/// The rate of DeepSpeed's warm-ups.
[[nodiscard]] ZEROTH_HOST_DEVICE inline float warmed_up(LearningRateSchedule const& schedule,
                                                        std::int64_t applied) noexcept {
  // A DeepSpeed scheduler steps after an update, and reports its start value before its first step. So update 1 uses
  // the start value, update 2 uses scheduler step 0 (which for the warmups is that value again), and so on.
  double const low = schedule.kind == ScheduleKind::warmup_cosine ? 0.0 : static_cast<double>(schedule.warmup_min);
  if (applied == 0) {
    return static_cast<float>(low);
  }
  auto const step = static_cast<double>(applied - 1);
  auto const warmup = static_cast<double>(schedule.warmup_steps > 2 ? schedule.warmup_steps : 2);
  auto const total = static_cast<double>(schedule.total_steps);
  double const decay_steps = total - warmup > 1 ? total - warmup : 1;
  double const warmed = step < warmup ? warmup_fraction(schedule.warmup, step, warmup) : 1.0;

  if (schedule.kind == ScheduleKind::warmup_cosine) {
    double ratio = 0;
    if (step < warmup) {
      double const start = static_cast<double>(schedule.warmup_min_ratio);
      ratio = start + warmed * (1 - start);
    } else {
      double const end = static_cast<double>(schedule.cosine_min_ratio);
      double const progress = (step - warmup + 1) / decay_steps;
      double const wave = raised_cosine(progress < 1 ? progress : 1);
      ratio = end + (1 - end) * wave;
    }
    return static_cast<float>(static_cast<double>(schedule.base) * (ratio > 0 ? ratio : 0));
  }
  double fraction = warmed;
  if (schedule.kind == ScheduleKind::warmup_decay && step >= warmup) {
    fraction = total > step ? (total - step) / decay_steps : 0;
  }
  return static_cast<float>(low + (static_cast<double>(schedule.warmup_max) - low) * fraction);
}

[[nodiscard]] ZEROTH_HOST_DEVICE inline float learning_rate(LearningRateSchedule const& schedule,
                                                            std::int64_t applied) noexcept {
  // torch's schedulers put their start value into the optimizer when they are made, and step after an update: update 1
  // uses the value of step 0.
  double factor = 1;
  switch (schedule.kind) {
    case ScheduleKind::constant: return schedule.base;
    case ScheduleKind::warmup:
    case ScheduleKind::warmup_decay:
    case ScheduleKind::warmup_cosine: return warmed_up(schedule, applied);
    case ScheduleKind::one_cycle: return static_cast<float>(one_cycle(schedule, applied));
    case ScheduleKind::range_test: return static_cast<float>(range_test(schedule, applied));
    case ScheduleKind::cosine_annealing: return static_cast<float>(cosine_annealing(schedule, applied));
    case ScheduleKind::constant_factor: factor = applied < schedule.total_steps ? schedule.start_factor : 1; break;
    case ScheduleKind::linear_factor: factor = linear_factor(schedule, applied); break;
    case ScheduleKind::step: factor = power(schedule.gamma, applied / schedule.step_size); break;
    case ScheduleKind::multi_step: factor = power(schedule.gamma, milestones_passed(schedule, applied)); break;
    case ScheduleKind::exponential: factor = power(schedule.gamma, applied); break;
  }
  return static_cast<float>(static_cast<double>(schedule.base) * factor);
}

}  // namespace zeroth::optim::arithmetic
