// SPDX-License-Identifier: Apache-2.0
/// 1-bit Adam after its freeze, for one element.
#pragma once
#include <cmath>

#include "adam_element.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::optim {

struct RestingFactors {
  AdamFactors adam;
};

[[nodiscard]] ZEROTH_HOST_DEVICE inline RestingFactors factors_of(OneBitAdam const& rule, StepScalars const& scalars,
                                                                  Segment const& segment) noexcept {
  return {factors_of(rule.adam, scalars, segment)};
}

/// A second moment of zero: all gradients before the freeze were zero. What signs decode to is not, and would be
/// divided by epsilon alone.
[[gnu::always_inline]] ZEROTH_HOST_DEVICE inline void update_element(RestingFactors const& f, float first,
                                                                     float& master, float& m, float& v) noexcept {
  float const before = master;
  float const moment = v == 0 ? 0.0F : first;
  float const denominator = std::sqrt(v) * f.adam.inverse_root2 + f.adam.epsilon;
  m = moment;
  master = before - (f.adam.step * (moment / denominator) + f.adam.decoupled * before);
}

}  // namespace zeroth::optim
