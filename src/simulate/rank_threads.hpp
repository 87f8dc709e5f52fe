// SPDX-License-Identifier: Apache-2.0
/// Simulated ranks as threads that end together.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace zeroth::simulate {

/// Calls `run` of each rank on a thread of its own, and returns when all have ended. Whatever goes wrong first, a
/// thread that cannot be had included, is told to `abort`, which must end ranks that wait for others; then it is thrown
/// here, and not what ranks say that only learnt of it (PeerError).
void run_rank_threads(std::size_t ranks, std::function<void(std::size_t rank)> const& run,
                      std::function<void(std::string const& reason)> const& abort);

}  // namespace zeroth::simulate
