// SPDX-License-Identifier: Apache-2.0
/// The clock of deadlines and records.
#pragma once
#include <chrono>

namespace zeroth {

using Clock = std::chrono::steady_clock;

}  // namespace zeroth
