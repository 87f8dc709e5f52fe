// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/step_scalars.hpp"

#include "step_arithmetic.hpp"

namespace zeroth::optim {

void advance(StepRules const& rules, StepSums const& total, StepScalars& scalars) noexcept {
  arithmetic::advance(rules, total, scalars);
}

}  // namespace zeroth::optim
