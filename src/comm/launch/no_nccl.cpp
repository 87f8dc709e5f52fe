// SPDX-License-Identifier: Apache-2.0
/// Replaces the communicator nccl in builds without NCCL.
#include "comm/launch/nccl_job.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

int run_nccl_job(LaunchOptions const& /*options*/, LaunchedRank const& /*launched*/,
                 std::function<void(Job&)> const& /*rank_main*/) {
  throw ConfigError{
      "ranks that are processes on GPUs communicate by NCCL, which this library was built without: configure it with "
      "-DZEROTH_ENABLE_CUDA=ON where CMake finds nccl.h and libnccl"};
}

}  // namespace zeroth::comm
