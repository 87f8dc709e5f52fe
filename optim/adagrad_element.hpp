// SPDX-License-Identifier: Apache-2.0
/// Adagrad for one element.
#pragma once
#include <cmath>

#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

struct AdagradFactors {
  float gradient_scale;
  float rate;  ///< After decay.
  float l2;
  float epsilon;
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline AdagradFactors factors_of(Adagrad const& rule, StepScalars const& scalars,
                                                                  Segment const& segment) noexcept {
  float const rate = scalars.learning_rate * segment.learning_rate_factor;
  return {.gradient_scale = scalars.gradient_scale,
          .rate = rate / (1.0F + static_cast<float>(scalars.applied - 1) * rule.rate_decay),
          .l2 = rule.weight_decay * segment.weight_decay_factor,
          .epsilon = rule.epsilon};
}

[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(AdagradFactors const& f, float gradient,
                                                                     float& master, float& sum) noexcept {
  float const g = gradient * f.gradient_scale + f.l2 * master;
  float const next = sum + g * g;
  sum = next;
  master = master - f.rate * (g / (std::sqrt(next) + f.epsilon));
}

}  // namespace zeroth::optim
