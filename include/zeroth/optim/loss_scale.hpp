/// Dynamic loss scaling for fp16, with DeepSpeed's sequence of values.
#pragma once
#include <cstdint>

namespace zeroth::optim {

struct LossScaleRules {
  bool dynamic = false;
  float initial = 1;  ///< Also the static scale.
  float minimum = 1;
  std::int64_t window = 1000;
  int hysteresis = 2;
  bool consecutive_hysteresis = false;
};

struct LossScaleState {
  float scale = 1;
  int hysteresis_left = 2;
  std::int64_t iteration = 0, last_overflow = -1;
  bool exhausted = false;  ///< An overflow came at the smallest scale: training cannot go on.
};

[[nodiscard]] LossScaleState initial_state(LossScaleRules const& rules) noexcept;
/// What the scale is after a step that did or did not overflow. It grows to 2^126 at most, so that it stays a number.
void update(LossScaleRules const& rules, bool overflow, LossScaleState& state) noexcept;

}  // namespace zeroth::optim
