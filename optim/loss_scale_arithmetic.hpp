// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of update(LossScaleRules), shared by the CPU and the GPU's scalar kernel.
#pragma once
#include "zeroth/core/dtype.hpp"
#include "zeroth/optim/loss_scale.hpp"

namespace zeroth::optim::arithmetic {

inline constexpr float scale_factor = 2;
inline constexpr float largest_scale =
    0x1p126F;  // also the limit of fp16.initial_scale_power; twice that, doubled again, is inf

ZEROTH_HOST_DEVICE inline void overflowed(LossScaleRules const& rules, LossScaleState& state) noexcept {
  if (rules.hysteresis != 1 && state.hysteresis_left != 1) {
    --state.hysteresis_left;
  } else {
    float const next = state.scale / scale_factor;
    state.scale = next > rules.minimum ? next : rules.minimum;
  }
  state.last_overflow = state.iteration;
}

ZEROTH_HOST_DEVICE inline void went_well(LossScaleRules const& rules, LossScaleState& state) noexcept {
  std::int64_t const stable = state.iteration - state.last_overflow - 1;
  bool const grows = stable > 0 && stable % rules.window == 0;
  if (grows) {
    state.scale = state.scale < largest_scale / scale_factor ? state.scale * scale_factor : largest_scale;
  }
  if (grows || rules.consecutive_hysteresis) {
    state.hysteresis_left = rules.hysteresis;
  }
}

ZEROTH_HOST_DEVICE inline void update(LossScaleRules const& rules, bool overflow, LossScaleState& state) noexcept {
  if (!rules.dynamic) {
    return;
  }
  bool const would_shrink = rules.hysteresis == 1 || state.hysteresis_left == 1;
  if (overflow && would_shrink && state.scale == rules.minimum) {
    state.exhausted = true;  // and nothing else changes: DeepSpeed ends here
    return;
  }
  overflow ? overflowed(rules, state) : went_well(rules, state);
  ++state.iteration;
}

}  // namespace zeroth::optim::arithmetic
