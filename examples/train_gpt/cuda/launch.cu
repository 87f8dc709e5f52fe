#include "bodies.hpp"
#include "cuda/gpu_block.hpp"

namespace gpt::cuda {

template <class Body>
cudaError_t launch(cudaStream_t stream, Body const& body, std::int64_t blocks) {
  return zeroth::cuda::OnStream{stream}(body, blocks);
}

GPT_CUDA_LAUNCH_ALL

}  // namespace gpt::cuda
