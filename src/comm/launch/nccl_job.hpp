// SPDX-License-Identifier: Apache-2.0
/// A job whose ranks are processes that communicate by NCCL, each with its own GPU.
#pragma once
#include <functional>

#include "comm/launch/environment.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// launch() if this process is one rank. Throws the error that keeps the job from starting, on all ranks that have
/// arrived. Does not return if the job fails after that.
[[nodiscard]] int run_nccl_job(LaunchOptions const& options, LaunchedRank const& launched,
                               std::function<void(Job&)> const& rank_main);

}  // namespace zeroth::comm
