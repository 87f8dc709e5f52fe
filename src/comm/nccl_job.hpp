/// A job whose ranks are processes that communicate by NCCL, each with a GPU of its own.
#pragma once
#include <functional>

#include "comm/environment.hpp"
#include "comm/rendezvous.hpp"
#include "zeroth/comm/job.hpp"

namespace zeroth::comm {

/// Was the library built with NCCL?
[[nodiscard]] bool has_nccl() noexcept;

/// launch() where this process is one rank. Throws what keeps the job from starting. Does not return if the job fails.
[[nodiscard]] int run_nccl_job(LaunchOptions const& options, Placement const& placement,
                               std::function<void(Job&)> const& rank_main);

}  // namespace zeroth::comm
