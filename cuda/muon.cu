// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/muon.hpp"

#include "cuda/gpu_block.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t direction(cudaStream_t stream, optim::DirectionArgs const& args) {
  return launch_direction(OnStream{stream}, args);
}

cudaError_t normalise(cudaStream_t stream, Normalise const& args) { return launch_normalise(OnStream{stream}, args); }

}  // namespace zeroth::cuda
