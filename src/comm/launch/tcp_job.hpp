// SPDX-License-Identifier: Apache-2.0
/// A job whose ranks are processes that communicate by sockets and each other's memory.
#pragma once
#include <functional>

#include "comm/launch/environment.hpp"
#include "comm/tcp/tcp_session.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// What the variables ZEROTH_INTERFACE and ZEROTH_WITHIN_MACHINE say. Throws ConfigError for what is not allowed.
void read_tcp_variables(Variables const& variable, TcpOptions& options);

/// launch() where this process is one rank. Throws what keeps the job from starting, on all ranks that have come. Does
/// not return if the job fails after that.
[[nodiscard]] int run_tcp_job(LaunchOptions const& options, LaunchedRank const& launched,
                              std::function<void(Job&)> const& rank_main);

}  // namespace zeroth::comm
