#include "gpu/on_gpu.hpp"

namespace gpt::gpu {

GPT_GPU_LAUNCH_FP32

}  // namespace gpt::gpu
