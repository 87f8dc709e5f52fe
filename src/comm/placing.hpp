/// Which ranks may be on which GPUs.
#pragma once
#include <string>

#include "comm/environment.hpp"

namespace zeroth::comm {

/// Throws ConfigError for ranks that LaunchOptions refuses on GPUs. `gpus`: that this process sees; negative where the
/// library was built without CUDA. `why_none`: why they are none, if they are. With nccl that may be none: then the
/// rank tells the others so, when they meet.
void check_cuda(LaunchPlan const& plan, bool share_devices, int gpus, std::string const& why_none);

}  // namespace zeroth::comm
