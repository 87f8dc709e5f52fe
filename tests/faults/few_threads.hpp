// SPDX-License-Identifier: Apache-2.0
/// Simulates a system that runs out of threads.
#pragma once

namespace zeroth::testing {

/// Lets this process create `count` more threads.
void leave_threads(int count) noexcept;

}  // namespace zeroth::testing
