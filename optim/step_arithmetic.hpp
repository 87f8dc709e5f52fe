// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of advance(), shared by the CPU and the GPU's scalar kernel.
#pragma once
#include <cmath>

#include "core/exact_math.hpp"
#include "learning_rate_arithmetic.hpp"
#include "loss_scale_arithmetic.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::optim::arithmetic {

/// The factor that limits the gradient's norm to `clip`.
ZEROTH_HOST_DEVICE inline double clipping(double norm, float clip) noexcept {
  double const bounded = norm + 1e-6;
  return clip > 0 && bounded > static_cast<double>(clip) ? static_cast<double>(clip) / bounded : 1.0;
}

/// 1 - beta^t
ZEROTH_HOST_DEVICE inline double bias_correction(double beta, std::int64_t updates) noexcept {
  return 1 - power(beta, updates);
}

ZEROTH_HOST_DEVICE inline void advance(StepRules const& rules, StepSums const& total, StepScalars& scalars) noexcept {
  scalars.stop = total.stop > 0;
  scalars.loss_scale_used = rules.loss_scale_used > 0 ? rules.loss_scale_used : scalars.loss_scale.scale;
  scalars.learning_rate =
      rules.has_learning_rate ? rules.given_learning_rate : arithmetic::learning_rate(rules.schedule, scalars.applied);
  scalars.gradient_scale = 0;
  scalars.skip = true;
  scalars.nonfinite = false;
  double const weight = total.weight.value();
  double const sum_of_squares = total.sum_of_squares.value();
  if (!(weight > 0)) {  // no rank computed anything: skip the update, and keep the loss scale
    scalars.loss = 0;
    scalars.gradient_norm = 0;
    return;
  }
  double const unscale =
      1 / (weight * static_cast<double>(scalars.loss_scale_used) * static_cast<double>(rules.gradient_prescale));
  double const norm = std::sqrt(sum_of_squares) * unscale;
  scalars.loss = static_cast<float>(total.loss.value() / weight);
  scalars.gradient_norm = static_cast<float>(norm);

  scalars.nonfinite = !std::isfinite(sum_of_squares);
  scalars.skip = rules.skip_nonfinite && scalars.nonfinite;
  arithmetic::update(rules.loss_scale, scalars.skip, scalars.loss_scale);
  if (scalars.skip) {
    return;
  }
  ++scalars.applied;
  scalars.gradient_scale = static_cast<float>(unscale * clipping(norm, rules.clip));
  scalars.bias_correction1 = static_cast<float>(bias_correction(rules.betas[0], scalars.applied));
  std::int64_t const second = scalars.applied < rules.second_moves_until ? scalars.applied : rules.second_moves_until;
  scalars.bias_correction2_sqrt = static_cast<float>(std::sqrt(bias_correction(rules.betas[1], second)));
}

}  // namespace zeroth::optim::arithmetic
