// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/rank_sum.hpp"

#include "cuda/gpu_block.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t rank_sum(cudaStream_t stream, RankSum const& args) { return launch_rank_sum(OnStream{stream}, args); }

}  // namespace zeroth::cuda
