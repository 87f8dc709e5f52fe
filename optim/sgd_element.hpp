// SPDX-License-Identifier: Apache-2.0
/// Stochastic gradient descent for one element, without and with momentum.
#pragma once
#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

struct SgdFactors {
  float gradient_scale;
  float rate;
  float l2;
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline SgdFactors factors_of(Sgd const& rule, StepScalars const& scalars,
                                                              Segment const& segment) noexcept {
  return {.gradient_scale = scalars.gradient_scale,
          .rate = scalars.learning_rate * segment.learning_rate_factor,
          .l2 = rule.weight_decay * segment.weight_decay_factor};
}

[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(SgdFactors const& f, float gradient,
                                                                     float& master) noexcept {
  float const g = gradient * f.gradient_scale + f.l2 * master;
  master = master - f.rate * g;
}

struct MomentumFactors {
  float gradient_scale;
  float rate;
  float l2;
  float momentum, rest;          ///< Weights of the previous buffer and of the gradient in the new buffer.
  float of_gradient, of_buffer;  ///< Weights in the update direction.
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline MomentumFactors factors_of(Momentum const& rule, StepScalars const& scalars,
                                                                   Segment const& segment) noexcept {
  return {.gradient_scale = scalars.gradient_scale,
          .rate = scalars.learning_rate * segment.learning_rate_factor,
          .l2 = rule.weight_decay * segment.weight_decay_factor,
          .momentum = rule.momentum,
          .rest = scalars.applied == 1
                      ? 1.0F
                      : static_cast<float>(1 - rule.dampening),  // the first gradient starts the buffer
          .of_gradient = rule.nesterov ? 1.0F : 0.0F,
          .of_buffer = rule.nesterov ? rule.momentum : 1.0F};
}

[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(MomentumFactors const& f, float gradient,
                                                                     float& master, float& buffer) noexcept {
  float const g = gradient * f.gradient_scale + f.l2 * master;
  float const next = f.momentum * buffer + f.rest * g;
  buffer = next;
  master = master - f.rate * (f.of_gradient * g + f.of_buffer * next);
}

}  // namespace zeroth::optim
