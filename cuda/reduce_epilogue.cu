// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/reduce_epilogue.hpp"

#include "cuda/gpu_block.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t reduce_epilogue(cudaStream_t stream, device::ReduceEpilogue const& args) {
  return launch_reduce_epilogue(OnStream{stream}, args);
}

}  // namespace zeroth::cuda
