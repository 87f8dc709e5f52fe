// SPDX-License-Identifier: Apache-2.0
#include "zeroth/optim/schedule.hpp"

#include "schedule_arithmetic.hpp"

namespace zeroth::optim {

float learning_rate(Schedule const& schedule, std::int64_t applied) noexcept {
  return arithmetic::learning_rate(schedule, applied);
}

}  // namespace zeroth::optim
