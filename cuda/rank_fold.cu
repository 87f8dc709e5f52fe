// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/rank_fold.hpp"

#include "cuda/gpu_block.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t rank_fold(cudaStream_t stream, RankFold const& args) { return launch_rank_fold(OnStream{stream}, args); }

}  // namespace zeroth::cuda
