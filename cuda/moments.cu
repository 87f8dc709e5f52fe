// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/moments.hpp"

#include "cuda/gpu_block.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t move_moments(cudaStream_t stream, device::MoveMoments const& args) {
  return launch_move_moments(OnStream{stream}, args);
}

cudaError_t trust_ratios(cudaStream_t stream, device::TrustRatios const& args) {
  return launch_trust_ratios(OnStream{stream}, args);
}

}  // namespace zeroth::cuda
