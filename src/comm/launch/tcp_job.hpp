// SPDX-License-Identifier: Apache-2.0
/// A job whose ranks are processes that communicate by sockets and shared memory.
#pragma once
#include <functional>

#include "comm/launch/environment.hpp"
#include "comm/tcp/tcp_session.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// Reads the variables ZEROTH_INTERFACE and ZEROTH_WITHIN_MACHINE. Throws ConfigError for values that are not allowed.
void read_tcp_variables(Variables const& variable, TcpOptions& options);

/// launch() if this process is one rank. Throws the error that keeps the job from starting, on all ranks that have
/// arrived. Does not return if the job fails after that.
[[nodiscard]] int run_tcp_job(LaunchOptions const& options, LaunchedRank const& launched,
                              std::function<void(Job&)> const& rank_main);

}  // namespace zeroth::comm
