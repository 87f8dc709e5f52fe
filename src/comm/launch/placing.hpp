// SPDX-License-Identifier: Apache-2.0
/// Assigns GPUs to ranks.
#pragma once
#include <string>

#include "comm/launch/environment.hpp"

namespace zeroth::comm {

/// The device of a rank that is a process and sees `device_count` devices: the one with its local rank as index. A
/// single visible device is assumed to be the rank's own, because launchers may hide the others; check_unshared()
/// detects it if not. Throws ConfigError if there is no device, none for this local rank, or several and no local rank.
/// For messages, `visible` is what restricts the devices, "CUDA_VISIBLE_DEVICES=0,1", and `why_none` is why there are
/// none.
[[nodiscard]] int device_of(LaunchedRank const& launched, int device_count, std::string const& visible = {},
                            std::string const& why_none = {});

/// Throws ConfigError for ranks that LaunchOptions rejects on GPUs. `gpus` is the number that this process sees;
/// negative if the library was built without CUDA. `why_none` is why there are none, if so. With nccl there may be
/// none: the rank then reports it to the others at the rendezvous.
void check_cuda(LaunchPlan const& plan, bool share_devices, int gpus, std::string const& why_none);

}  // namespace zeroth::comm
