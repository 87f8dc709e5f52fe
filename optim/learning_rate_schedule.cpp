// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/learning_rate_schedule.hpp"

#include "learning_rate_arithmetic.hpp"

namespace zeroth::optim {

float learning_rate(LearningRateSchedule const& schedule, std::int64_t applied) noexcept {
  return arithmetic::learning_rate(schedule, applied);
}

}  // namespace zeroth::optim
