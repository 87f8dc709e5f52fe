// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/loss_scale.hpp"

#include "loss_scale_arithmetic.hpp"

namespace zeroth::optim {

LossScaleState initial_state(LossScaleRules const& rules) noexcept {
  return {.scale = rules.initial, .hysteresis_left = rules.hysteresis};
}

void update(LossScaleRules const& rules, bool overflow, LossScaleState& state) noexcept {
  arithmetic::update(rules, overflow, state);
}

}  // namespace zeroth::optim
