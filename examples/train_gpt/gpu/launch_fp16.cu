// SPDX-License-Identifier: Apache-2.0
#include "gpu/on_gpu.hpp"

namespace gpt::gpu {

GPT_GPU_LAUNCH_16_BITS(zeroth::fp16)

}  // namespace gpt::gpu
