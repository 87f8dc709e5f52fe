// SPDX-License-Identifier: Apache-2.0
/// A job whose ranks are processes that communicate by MPI.
#pragma once
#include <functional>
#include <optional>

#include "comm/launch/environment.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// launch() if this process is one rank. Throws the error that keeps the job from starting. Does not return if the job
/// fails.
[[nodiscard]] int run_process_job(LaunchOptions const& options, std::optional<LaunchedRank> const& launched,
                                  std::function<void(Job&)> const& rank_main);

}  // namespace zeroth::comm
