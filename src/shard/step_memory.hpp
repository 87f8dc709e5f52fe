// SPDX-License-Identifier: Apache-2.0
/// The few numbers of a step that live on the device, and the host's copies of them.
#pragma once
#include <array>
#include <cstdint>

#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::shard {

/// On the device only.
struct StepMemory {
  optim::StepSums mine, total;  ///< Contribution of this rank; sum over ranks.
  optim::StepScalars scalars;   ///< State, and results of the step that was enqueued last.
  optim::StepSums evaluation_mine, evaluation_total;
};

/// The host's copies, in memory of Device::allocate_host().
struct StepResults {
  std::array<optim::StepScalars, 2> scalars;  ///< Results of the last two steps: the host reads them one step later.
  std::array<optim::StepSums, 2> totals;      ///< Sums over ranks in the same steps.
  std::array<optim::StepSums, 2> mine;        ///< The host's contributions to them.
  optim::StepSums evaluation_mine;
  optim::StepSums evaluation;
  StepMemory initial;  ///< The initial content of the device's memory.
};

}  // namespace zeroth::shard
