// SPDX-License-Identifier: Apache-2.0
#include "cuda/gpu_block.hpp"
#include "cuda/kernels/move.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t convert(cudaStream_t stream, void* destination, Dtype destination_dtype, void const* source,
                    Dtype source_dtype, std::int64_t count) {
  return launch_convert(OnStream{stream}, destination, destination_dtype, source, source_dtype, count);
}

}  // namespace zeroth::cuda
