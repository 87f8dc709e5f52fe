#include "comm/placing.hpp"

#include <fmt/format.h>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {

void check_cuda(LaunchPlan const& plan, bool share_devices, int gpus, std::string const& why_none) {
  if (gpus < 0) {
    throw ConfigError{
        "LaunchOptions::device is cuda, but the library was built without CUDA; configure it with "
        "-DZEROTH_ENABLE_CUDA=ON, or run on the cpu"};
  }
  if (plan.transport == Transport::mpi) {
    throw ConfigError{
        "LaunchOptions::device is cuda, but its transport is mpi, which works in memory of the host; processes on GPUs "
        "use nccl, and threads of one process local"};
  }
  if (plan.transport == Transport::nccl) {
    if (share_devices) {
      throw ConfigError{
          "LaunchOptions::share_devices is set, but ranks that are processes communicate by nccl, which takes one rank "
          "for each GPU; run the ranks as threads of one process, or start one process for each GPU without it"};
    }
    return;
  }
  if (gpus == 0) {
    throw ConfigError{fmt::format("LaunchOptions::device is cuda, but this process sees no GPU: {}", why_none)};
  }
  if (plan.thread_ranks > gpus && !share_devices) {
    throw ConfigError{
        fmt::format("{} ranks on {} GPU{}: start at most {}, or set LaunchOptions::share_devices if several ranks are "
                    "to be on one GPU",
                    plan.thread_ranks, gpus, gpus == 1 ? "" : "s", gpus)};
  }
}

}  // namespace zeroth::comm
