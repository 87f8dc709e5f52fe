// SPDX-License-Identifier: Apache-2.0
/// Muon for one element, along a direction that was made orthogonal before.
#pragma once
#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

struct MuonFactors {
  float rate;
  float decoupled;  ///< Learning rate times decay.
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline MuonFactors factors_of(Muon const& rule, StepScalars const& scalars,
                                                               Segment const& segment) noexcept {
  float const rate = scalars.learning_rate * segment.learning_rate_factor;
  return {.rate = rate, .decoupled = rate * (rule.weight_decay * segment.weight_decay_factor)};
}

/// The momentum was updated when the direction was computed.
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(MuonFactors const& f, float direction,
                                                                     float& master, float& /*momentum*/) noexcept {
  float const before = master;
  master = before - (f.rate * direction + f.decoupled * before);
}

}  // namespace zeroth::optim
