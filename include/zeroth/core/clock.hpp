// SPDX-License-Identifier: Apache-2.0
/// The clock of deadlines and records.
#pragma once
#include <chrono>

namespace zeroth {

/// Steady: it never goes back, and says nothing of the time of day. Processes' clocks have no common start.
using Clock = std::chrono::steady_clock;

}  // namespace zeroth
