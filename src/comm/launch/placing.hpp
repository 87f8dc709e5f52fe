// SPDX-License-Identifier: Apache-2.0
/// Which ranks may be on which GPUs, and which GPU is a rank's.
#pragma once
#include <string>

#include "comm/launch/environment.hpp"

namespace zeroth::comm {

/// The device of a rank, a process, that sees `device_count` of them: that of its local rank. Where it sees a single
/// one that is taken to be its own, because launchers may hide the others; check_unshared() finds out if it is not.
/// Throws ConfigError where there is no device, none for this local rank, or where the launcher did not say which of
/// several. For messages, `visible` says what restricts them, "CUDA_VISIBLE_DEVICES=0,1", and `why_none` why there are
/// none.
[[nodiscard]] int device_of(LaunchedRank const& launched, int device_count, std::string const& visible = {},
                            std::string const& why_none = {});

/// Throws ConfigError for ranks that LaunchOptions refuses on GPUs. `gpus`: that this process sees; negative where the
/// library was built without CUDA. `why_none`: why they are none, if they are. With nccl that may be none: then the
/// rank tells the others so, when they meet.
void check_cuda(LaunchPlan const& plan, bool share_devices, int gpus, std::string const& why_none);

}  // namespace zeroth::comm
