// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/placing.hpp"

#include <fmt/format.h>

#include "comm/store/presence.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

int device_of(LaunchedRank const& launched, int device_count, std::string const& visible, std::string const& why_none) {
  auto const where = visible.empty() ? std::string{} : fmt::format(" ({})", visible);
  if (device_count <= 0) {
    throw ConfigError{fmt::format("it needs a GPU, but its process sees none{}: {}", where, why_none)};
  }
  if (device_count == 1 || (launched.world == 1 && !launched.local_rank)) {
    return 0;
  }
  if (!launched.local_rank) {
    throw ConfigError{
        fmt::format("its process sees {} GPUs{}, and {} ({}) did not say which is its own: set {} in the environment "
                    "to the rank's index on its machine, or let each process see a single GPU",
                    device_count, where, launched.launcher, launched.variables, local_rank_variable(launched.kind))};
  }
  if (*launched.local_rank >= device_count) {
    throw ConfigError{fmt::format("local rank {} has no GPU of its own: its process sees {}{}; {}",
                                  *launched.local_rank, device_count, where, how_to_share)};
  }
  return *launched.local_rank;
}

void check_cuda(LaunchPlan const& plan, bool share_devices, int gpus, std::string const& why_none) {
  if (gpus < 0) {
    throw ConfigError{
        "LaunchOptions::device is cuda, but the library was built without CUDA; configure it with "
        "-DZEROTH_ENABLE_CUDA=ON, or run on the cpu"};
  }
  auto const& transport = traits_of(plan.transport);
  if (!transport.on_gpus) {
    throw ConfigError{
        fmt::format("LaunchOptions::device is cuda, but its transport is {}, which works in host memory; processes on "
                    "GPUs use nccl, and threads of one process local",
                    transport.name)};
  }
  if (transport.ranks != RankKind::threads) {
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
