// SPDX-License-Identifier: Apache-2.0
/// Simulated ranks as threads that end together.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace zeroth::simulate {

/// Calls `run` for each rank on its own thread, and returns when all have ended. Calls `abort` on every error, also if
/// a thread cannot be started; it must end ranks that wait for others. Then throws the first error that is not a
/// PeerError, which only reports another rank's error.
void run_rank_threads(std::size_t ranks, std::function<void(std::size_t rank)> const& run,
                      std::function<void(std::string const& reason)> const& abort);

}  // namespace zeroth::simulate
