/// Learning-rate schedules, as functions of the number of updates applied so far. DeepSpeed's names and values.
#pragma once
#include <cstdint>

namespace zeroth::optim {

enum class ScheduleKind : std::uint8_t { constant, warmup, warmup_decay, warmup_cosine };
enum class WarmupKind : std::uint8_t { logarithmic, linear };

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  WarmupKind warmup = WarmupKind::logarithmic;
  float base = 1e-3F;  ///< The optimizer's `lr`: constant's value, warmup_cosine's factor.
  float warmup_min = 0, warmup_max = 1e-3F;
  std::int64_t warmup_steps = 1000, total_steps = 0;
  float warmup_min_ratio = 0, cosine_min_ratio = 1e-4F;
};

/// The rate of the update that follows `applied` updates (0 for the first). Skipped updates do not count.
[[nodiscard]] float learning_rate(Schedule const& schedule, std::int64_t applied) noexcept;

}  // namespace zeroth::optim
