// SPDX-License-Identifier: Apache-2.0
/// The kernels of train_gpt on the host: every body in the block emulator.
#include "support/emulated_launch.hpp"
#include "gpu/bodies.hpp"

namespace gpt::gpu {

template <class Body>
cudaError_t launch(cudaStream_t stream, Body const& body, std::int64_t blocks) {
  return zeroth::testing::enqueue(stream, typeid(Body), [body, blocks, how = zeroth::testing::emulation()] {
    zeroth::testing::emulate(body, blocks, how);
  });
}

GPT_GPU_LAUNCH_FP32
GPT_GPU_LAUNCH_16_BITS(zeroth::bf16)
GPT_GPU_LAUNCH_16_BITS(zeroth::fp16)

}  // namespace gpt::gpu
