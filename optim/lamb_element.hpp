// SPDX-License-Identifier: Apache-2.0
/// LAMB for one element, and for one parameter.
#pragma once
#include <cmath>

#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

struct LambFactors {
  float gradient_scale;
  float beta1, rest1;  ///< rest = 1 - beta
  float beta2, rest2;
  float epsilon;
  float decay;
  float step;  ///< Learning rate times bias correction and trust ratio.
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline LambFactors factors_of(Lamb const& rule, StepScalars const& scalars,
                                                               Segment const& segment) noexcept {
  float const rate = scalars.learning_rate * segment.learning_rate_factor;
  float const trust = segment.trust_ratio == nullptr ? 1.0F : *segment.trust_ratio;
  return {.gradient_scale = scalars.gradient_scale,
          .beta1 = static_cast<float>(rule.beta1),
          .rest1 = static_cast<float>(1 - rule.beta1),
          .beta2 = static_cast<float>(rule.beta2),
          .rest2 = static_cast<float>(1 - rule.beta2),
          .epsilon = rule.epsilon,
          .decay = rule.weight_decay * segment.weight_decay_factor,
          .step = rate * (scalars.bias_correction2_sqrt / scalars.bias_correction1) * trust};
}

/// The first pass.
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void move_moments(LambFactors const& f, float gradient, float& m,
                                                                   float& v) noexcept {
  float const g = gradient * f.gradient_scale;
  m = f.beta1 * m + f.rest1 * g;
  v = f.beta2 * v + f.rest2 * (g * g);
}

/// Both passes compute it, the first one for its norm.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float direction_of(LambFactors const& f, float master,
                                                                               float m, float v) noexcept {
  return m / (std::sqrt(v) + f.epsilon) + f.decay * master;
}

/// The second pass. The moments have moved, and the gradient is in them.
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(LambFactors const& f, float /*gradient*/,
                                                                     float& master, float& m, float& v) noexcept {
  master -= f.step * direction_of(f, master, m, v);
}

/// The trust ratio of a parameter, from the sums of squares of its weights and of its direction. 1 if one of them is 0.
[[nodiscard]] ZEROTH_HOST_DEVICE inline float trust_ratio(Lamb const& rule, double weight_squares,
                                                          double direction_squares) noexcept {
  if (weight_squares == 0 || direction_squares == 0) {
    return 1;
  }
  auto const ratio = static_cast<float>(std::sqrt(weight_squares) / std::sqrt(direction_squares));
  float const below = ratio > rule.max_coefficient ? rule.max_coefficient : ratio;
  return below < rule.min_coefficient ? rule.min_coefficient : below;
}

}  // namespace zeroth::optim
