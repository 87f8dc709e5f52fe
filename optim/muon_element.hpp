// SPDX-License-Identifier: Apache-2.0
/// Muon for one element: the direction of its step, and the update along a direction that was made orthogonal before.
#pragma once
#include <cmath>

#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

/// The part of a rule that an update needs, without the program's function, which kernels of a GPU cannot have.
struct MuonUpdate {
  static constexpr int state_count = 0;
  float weight_decay;
};

struct MuonFactors {
  float rate;
  float decoupled;  ///< Learning rate times decay.
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline MuonFactors factors_of(MuonUpdate const& rule, StepScalars const& scalars,
                                                               Segment const& segment) noexcept {
  float const rate = scalars.learning_rate * segment.learning_rate_factor;
  return {.rate = rate, .decoupled = rate * (rule.weight_decay * segment.weight_decay_factor)};
}
[[nodiscard]] inline MuonFactors factors_of(Muon const& rule, StepScalars const& scalars,
                                            Segment const& segment) noexcept {
  return factors_of(MuonUpdate{rule.weight_decay}, scalars, segment);
}

[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(MuonFactors const& f, float direction,
                                                                     float& master) noexcept {
  float const before = master;
  master = before - (f.rate * direction + f.decoupled * before);
}
/// The momentum was updated when the direction was computed.
[[gnu::always_inline]] inline void update_element(MuonFactors const& f, float direction, float& master,
                                                  float& /*momentum*/) noexcept {
  update_element(f, direction, master);
}

// ---- the direction --------------------------------------------------------------------------------------------------

/// Factors that all elements of a direction share.
struct DirectionFactors {
  float momentum, rest;  ///< Decay rate of the mean of gradients, and 1 minus it.
  bool nesterov;
};
[[nodiscard]] inline DirectionFactors direction_factors_of(Muon const& rule) noexcept {
  return {static_cast<float>(rule.momentum), static_cast<float>(1 - rule.momentum), rule.nesterov};
}

/// The mean of `a` and `b` with weight `w` of `b`, as torch.lerp rounds it.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float mean(float a, float b, float w) noexcept {
  return w < 0.5F ? a + w * (b - a) : b - (b - a) * (1.0F - w);
}

/// Moves the momentum towards a gradient, which is scaled already. Returns the direction of the step.
[[nodiscard, gnu::always_inline]] ZEROTH_HOST_DEVICE inline float move_momentum(DirectionFactors const& f,
                                                                                float gradient,
                                                                                float& momentum) noexcept {
  momentum = mean(momentum, gradient, f.rest);
  return f.nesterov ? mean(gradient, momentum, f.momentum) : momentum;
}

// ---- the norm -------------------------------------------------------------------------------------------------------

/// The number that a matrix is divided by, from the sum of its squares: then no singular value exceeds 1.
[[nodiscard]] ZEROTH_HOST_DEVICE inline float matrix_norm(double squares) noexcept {
  constexpr float smallest = 1e-7F;
  auto const norm = static_cast<float>(std::sqrt(squares));
  return norm < smallest ? smallest : norm;
}

}  // namespace zeroth::optim
