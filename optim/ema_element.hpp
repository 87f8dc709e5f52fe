// SPDX-License-Identifier: Apache-2.0
/// The exponential moving average of a master, for the CPU and for kernels.
#pragma once
#include "zeroth/core/dtype.hpp"

namespace zeroth::optim {

/// The part of the way to the master that an average moves in an update.
inline float average_rate(double decay) noexcept { return static_cast<float>(1 - decay); }

ZEROTH_HOST_DEVICE inline float averaged(float average, float master, float rate) noexcept {
  return average + rate * (master - average);
}

}  // namespace zeroth::optim
