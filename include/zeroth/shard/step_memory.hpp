/// The few numbers of a step that live on the device.
#pragma once
#include <array>
#include <cstdint>

#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::shard {

/// Memory is zero-filled and then constructed by the owner.
struct StepMemory {
  optim::StepSums mine, total;                ///< Contribution of this rank; sum over ranks.
  optim::StepScalars scalars;                 ///< State, and results of the step that was enqueued last.
  std::array<optim::StepScalars, 2> results;  ///< Of the last two steps, for the host to read one step later.
  std::array<optim::StepSums, 2> totals;      ///< Beside them.
  optim::StepSums evaluation_mine, evaluation_total;
};

}  // namespace zeroth::shard
