// SPDX-License-Identifier: Apache-2.0
/// Lion for one element.
#pragma once
#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

struct LionFactors {
  float gradient_scale;
  float rate;
  float beta1, rest1;  ///< rest = 1 - beta
  float beta2, rest2;
  float decoupled;  ///< Learning rate times decay.
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline LionFactors factors_of(Lion const& rule, StepScalars const& scalars,
                                                               Segment const& segment) noexcept {
  float const rate = scalars.learning_rate * segment.learning_rate_factor;
  return {.gradient_scale = scalars.gradient_scale,
          .rate = rate,
          .beta1 = static_cast<float>(rule.beta1),
          .rest1 = static_cast<float>(1 - rule.beta1),
          .beta2 = static_cast<float>(rule.beta2),
          .rest2 = static_cast<float>(1 - rule.beta2),
          .decoupled = rate * (rule.weight_decay * segment.weight_decay_factor)};
}

/// The sign of 0 is 0, and the sign of a NaN is NaN.
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(LionFactors const& f, float gradient,
                                                                     float& master, float& average) noexcept {
  float const before = master;
  float const g = gradient * f.gradient_scale;
  float const direction = f.beta1 * average + f.rest1 * g;
  float const sign = direction > 0.0F ? 1.0F : (direction < 0.0F ? -1.0F : direction);
  average = f.beta2 * average + f.rest2 * g;
  master = before - (f.rate * sign + f.decoupled * before);
}

}  // namespace zeroth::optim
