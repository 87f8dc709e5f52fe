// SPDX-License-Identifier: Apache-2.0
/// The clock for deadlines and records.
#pragma once
#include <chrono>

namespace zeroth {

/// A steady clock: it never goes back, and does not tell the time of day. Clocks of different processes have no common
/// epoch.
using Clock = std::chrono::steady_clock;

}  // namespace zeroth
