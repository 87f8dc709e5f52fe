// SPDX-License-Identifier: Apache-2.0
/// Adam and AdamW for one element.
#pragma once
#include <cmath>

#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

/// Factors that all elements of a segment share.
struct AdamFactors {
  float gradient_scale;
  float beta1, rest1;  ///< rest = 1 - beta
  float beta2, rest2;
  float inverse_root2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float step;       ///< Learning rate divided by 1 - beta1^t.
  float l2;         ///< Decay that is added to the gradient; 0 with decoupled decay.
  float decoupled;  ///< Learning rate times decay; 0 without decoupled decay.
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline AdamFactors factors_of(Adam const& rule, StepScalars const& scalars,
                                                               Segment const& segment) noexcept {
  float const rate = scalars.learning_rate * segment.learning_rate_factor;
  float const decay = rule.weight_decay * segment.weight_decay_factor;
  return {
      .gradient_scale = scalars.gradient_scale,
      .beta1 = static_cast<float>(rule.beta1),
      .rest1 = static_cast<float>(1 - rule.beta1),
      .beta2 = static_cast<float>(rule.beta2),
      .rest2 = static_cast<float>(1 - rule.beta2),
      .inverse_root2 = 1.0F / scalars.bias_correction2_sqrt,
      .epsilon = rule.epsilon,
      .step = rate / scalars.bias_correction1,
      .l2 = rule.decoupled_decay ? 0.0F : decay,
      .decoupled = rule.decoupled_decay ? rate * decay : 0.0F,
  };
}

/// Always computes both kinds of decay, one of them with 0: memory hides the two operations, and one loop serves both.
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(AdamFactors const& f, float gradient,
                                                                     float& master, float& m, float& v) noexcept {
  float const before = master;
  float const g = gradient * f.gradient_scale + f.l2 * before;
  float const first = f.beta1 * m + f.rest1 * g;
  float const second = f.beta2 * v + f.rest2 * (g * g);
  float const denominator = std::sqrt(second) * f.inverse_root2 + f.epsilon;
  m = first;
  v = second;
  master = before - (f.step * (first / denominator) + f.decoupled * before);
}

}  // namespace zeroth::optim
