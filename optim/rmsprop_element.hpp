// SPDX-License-Identifier: Apache-2.0
/// RMSProp for one element, without and with momentum.
#pragma once
#include <cmath>

#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

struct RmsPropFactors {
  float gradient_scale;
  float rate;
  float l2;
  float alpha, rest;  ///< rest = 1 - alpha
  float epsilon;
  float momentum;
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline RmsPropFactors factors_of(RmsProp const& rule, StepScalars const& scalars,
                                                                  Segment const& segment) noexcept {
  return {.gradient_scale = scalars.gradient_scale,
          .rate = scalars.learning_rate * segment.learning_rate_factor,
          .l2 = rule.weight_decay * segment.weight_decay_factor,
          .alpha = static_cast<float>(rule.alpha),
          .rest = static_cast<float>(1 - rule.alpha),
          .epsilon = rule.epsilon,
          .momentum = 0};
}

[[nodiscard]] ZEROTH_HOST_DEVICE inline RmsPropFactors factors_of(RmsPropMomentum const& rule,
                                                                  StepScalars const& scalars,
                                                                  Segment const& segment) noexcept {
  auto factors = factors_of(rule.plain, scalars, segment);
  factors.momentum = rule.momentum;
  return factors;
}

[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float normalised(RmsPropFactors const& f, float gradient,
                                                                             float master, float& square) noexcept {
  float const g = gradient * f.gradient_scale + f.l2 * master;
  float const next = f.alpha * square + f.rest * (g * g);
  square = next;
  return g / (std::sqrt(next) + f.epsilon);
}

[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(RmsPropFactors const& f, float gradient,
                                                                     float& master, float& square) noexcept {
  master = master - f.rate * normalised(f, gradient, master, square);
}

[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(RmsPropFactors const& f, float gradient,
                                                                     float& master, float& square,
                                                                     float& buffer) noexcept {
  float const next = f.momentum * buffer + normalised(f, gradient, master, square);
  buffer = next;
  master = master - f.rate * next;
}

}  // namespace zeroth::optim
