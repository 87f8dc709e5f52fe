// SPDX-License-Identifier: Apache-2.0
/// The few numbers of a step that live on the device, and what the host sees of them.
#pragma once
#include <array>
#include <cstdint>

#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::shard {

/// On the device alone.
struct StepMemory {
  optim::StepSums mine, total;  ///< Contribution of this rank; sum over ranks.
  optim::StepScalars scalars;   ///< State, and results of the step that was enqueued last.
  optim::StepSums evaluation_mine, evaluation_total;
};

/// What the host sees of it: copies, in memory of Device::allocate_host().
struct StepResults {
  std::array<optim::StepScalars, 2> scalars;  ///< Of the last two steps, for the host to read one step later.
  std::array<optim::StepSums, 2> totals;      ///< Beside them.
  std::array<optim::StepSums, 2> mine;        ///< What this rank's host adds to them.
  optim::StepSums evaluation_mine;
  optim::StepSums evaluation;
  StepMemory initial;  ///< What the device's memory starts with.
};

}  // namespace zeroth::shard
