// SPDX-License-Identifier: Apache-2.0
/// A job whose ranks are threads of this process.
#pragma once
#include <functional>

#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// launch() with options.thread_ranks ranks as threads.
[[nodiscard]] int run_thread_job(LaunchOptions const& options, std::function<void(Job&)> const& rank_main);

}  // namespace zeroth::comm
