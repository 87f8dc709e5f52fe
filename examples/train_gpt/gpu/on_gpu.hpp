// SPDX-License-Identifier: Apache-2.0
/// launch() on a GPU, for nvcc. The including file chooses the bodies.
#pragma once
#include "cuda/gpu_block.hpp"
#include "gpu/bodies.hpp"

namespace gpt::gpu {

template <class Body>
cudaError_t launch(cudaStream_t stream, Body const& body, std::int64_t blocks) {
  return zeroth::cuda::OnStream{stream}(body, blocks);
}

}  // namespace gpt::gpu
