// SPDX-License-Identifier: Apache-2.0
/// Learning-rate schedules, as functions of the number of updates applied so far. DeepSpeed's names and values.
#pragma once
#include <cstdint>

#include "zeroth/core/export.hpp"

namespace zeroth::optim {

/// DeepSpeed's schedulers: none, WarmupLR, WarmupDecayLR, WarmupCosineLR.
enum class ScheduleKind : std::uint8_t { constant, warmup, warmup_decay, warmup_cosine };
/// How the rate rises over the warm-up.
enum class WarmupKind : std::uint8_t { logarithmic, linear };

/// A schedule with its parameters, under DeepSpeed's names.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;   ///< Which of the fields below count.
  WarmupKind warmup = WarmupKind::logarithmic;  ///< For all but constant.
  float base = 1e-3F;                           ///< The optimizer's `lr`: constant's value, warmup_cosine's factor.
  float warmup_min = 0;                         ///< Rate of the first update.
  float warmup_max = 1e-3F;                     ///< Rate after the warm-up.
  std::int64_t warmup_steps = 1000;             ///< Updates.
  std::int64_t total_steps = 0;                 ///< Updates until the decay ends.
  float warmup_min_ratio = 0;                   ///< warmup_cosine: of `base`, at the start.
  float cosine_min_ratio = 1e-4F;               ///< warmup_cosine: of `base`, at the end.
};

/// The rate of the update that follows `applied` updates (0 for the first). Skipped updates do not count.
[[nodiscard]] ZEROTH_EXPORT float learning_rate(Schedule const& schedule, std::int64_t applied) noexcept;

}  // namespace zeroth::optim
