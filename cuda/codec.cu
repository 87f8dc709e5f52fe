// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/codec.hpp"

#include "cuda/gpu_block.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t encode(cudaStream_t stream, device::Encode const& args) { return launch_encode(OnStream{stream}, args); }

cudaError_t quantise(cudaStream_t stream, device::Quantise const& args) {
  return launch_quantise(OnStream{stream}, args);
}

cudaError_t fold_received(cudaStream_t stream, device::FoldReceived const& args) {
  return launch_fold_received(OnStream{stream}, args);
}

}  // namespace zeroth::cuda
