// SPDX-License-Identifier: Apache-2.0
/// Learning-rate schedules, as functions of the number of updates applied so far, with the values of DeepSpeed's and of
/// torch.optim.lr_scheduler's.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "zeroth/core/export.hpp"

namespace zeroth::optim {

/// Kinds of schedules. The first one has no scheduler: the rate is always `base`.
enum class ScheduleKind : std::uint8_t {
  constant,
  // DeepSpeed's WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle (Smith 2018) and LRRangeTest:
  warmup,
  warmup_decay,
  warmup_cosine,
  one_cycle,
  range_test,
  // torch.optim.lr_scheduler's ConstantLR, LinearLR, CosineAnnealingLR, StepLR, MultiStepLR and ExponentialLR:
  constant_factor,
  linear_factor,
  cosine_annealing,
  step,
  multi_step,
  exponential,
};
/// How the rate rises over the warm-up.
enum class WarmupKind : std::uint8_t { logarithmic, linear };

/// Max number of LearningRateSchedule::milestones.
inline constexpr std::size_t most_milestones = 16;

/// A schedule with its parameters.
struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::constant;   ///< Selects the members below that are used.
  WarmupKind warmup = WarmupKind::logarithmic;  ///< For schedules with a warm-up.
  float base = 1e-3F;  ///< The optimizer's `lr`: constant's value, a factor of warmup_cosine and of torch's schedules.
  float warmup_min = 0;              ///< Rate of the first update.
  float warmup_max = 1e-3F;          ///< Rate after the warm-up.
  std::int64_t warmup_steps = 1000;  ///< Length of the warm-up, in updates.
  std::int64_t total_steps = 0;      ///< Updates until the decay ends. torch's `total_iters` and `T_max`: at least 1.
  float warmup_min_ratio = 0;        ///< warmup_cosine: fraction of `base` at the start.
  float cosine_min_ratio = 1e-4F;    ///< warmup_cosine: fraction of `base` at the end.
  float cycle_min = 0;               ///< one_cycle: rate at the start and end of the cycle.
  float cycle_max = 0;               ///< one_cycle: rate in the middle of the cycle.
  std::int64_t cycle_first = 2000;   ///< one_cycle: updates over which the rate rises.
  std::int64_t cycle_second = 2000;  ///< one_cycle: updates over which the rate falls.
  std::int64_t cycle_first_stairs = 0;   ///< one_cycle: number of steps in which it rises; 0: continuously.
  std::int64_t cycle_second_stairs = 0;  ///< one_cycle: number of steps in which it falls; 0: continuously.
  std::int64_t decay_interval = 0;       ///< one_cycle: updates per interval of decay, after the cycle; 0: no decay.
  float decay_rate = 0;                  ///< one_cycle: the rate is divided by 1 + this x intervals.
  float range_min = 1e-3F;               ///< range_test: rate of the first update.
  float range_rate = 1;                  ///< range_test: the rate is multiplied by 1 + this x intervals.
  std::int64_t range_interval = 2000;    ///< range_test: updates per interval.
  bool range_staircase = false;          ///< range_test: count whole intervals only.
  std::int32_t milestone_count = 0;      ///< multi_step: how many of `milestones` count.
  /// multi_step: the rate is multiplied by `gamma` after each of these numbers of updates. In any order; one that is
  /// there twice counts twice.
  std::array<std::int32_t, most_milestones> milestones{};
  std::int64_t step_size = 1;  ///< step: the rate is multiplied by `gamma` after each so many updates. At least 1.
  double gamma = 1;            ///< step, multi_step, exponential: the factor, of exponential after each update.
  double start_factor = 1;     ///< constant_factor, linear_factor: fraction of `base` at the start.
  double end_factor = 1;       ///< linear_factor: fraction of `base` from `total_steps` on.
  double eta_min = 0;          ///< cosine_annealing: rate after `total_steps`. It then rises again over as many.
};

/// The rate of the update after `applied` updates (0 for the first one). Skipped updates do not count.
[[nodiscard]] ZEROTH_EXPORT float learning_rate(LearningRateSchedule const& schedule, std::int64_t applied) noexcept;

}  // namespace zeroth::optim
