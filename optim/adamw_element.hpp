/// The arithmetic of one element's update: what the CPU's loops and, on a GPU, the kernel both compile.
#pragma once
#include <cmath>

#include "zeroth/optim/adamw.hpp"

namespace zeroth::optim {

/// What all elements of a segment share.
struct AdamwFactors {
  float gradient_scale;
  float beta1, rest1;  ///< rest = 1 - beta
  float beta2, rest2;
  float inverse_root2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
  float step;       ///< Learning rate over 1 - beta1^t.
  float l2;         ///< Decay that goes through the gradient; 0 with decoupled decay.
  float decoupled;  ///< Learning rate times decay; 0 without decoupled decay.
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline AdamwFactors factors_of(AdamRules const& rules, StepScalars const& scalars,
                                                                AdamwSegment const& segment) noexcept {
  float const rate = scalars.learning_rate * segment.learning_rate_factor;
  float const decay = rules.weight_decay * segment.weight_decay_factor;
  return {
      .gradient_scale = scalars.gradient_scale,
      .beta1 = rules.beta1,
      .rest1 = 1.0F - rules.beta1,
      .beta2 = rules.beta2,
      .rest2 = 1.0F - rules.beta2,
      .inverse_root2 = 1.0F / scalars.bias_correction2_sqrt,
      .epsilon = rules.epsilon,
      .step = rate / scalars.bias_correction1,
      .l2 = rules.decoupled_decay ? 0.0F : decay,
      .decoupled = rules.decoupled_decay ? rate * decay : 0.0F,
  };
}

/// Both kinds of decay are always computed, one of them with 0: two operations that memory hides, and one loop.
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(AdamwFactors const& f, float gradient,
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
