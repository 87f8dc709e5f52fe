// SPDX-License-Identifier: Apache-2.0
/// A system that runs out of threads.
#pragma once

namespace zeroth::testing {

/// From now on `count` more threads can be made in this process.
void leave_threads(int count) noexcept;

}  // namespace zeroth::testing
