#include "gpu/bodies.hpp"
#include "cuda/gpu_block.hpp"

namespace gpt::gpu {

template <class Body>
cudaError_t launch(cudaStream_t stream, Body const& body, std::int64_t blocks) {
  return zeroth::cuda::OnStream{stream}(body, blocks);
}

GPT_GPU_LAUNCH_ALL

}  // namespace gpt::gpu
