// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/step.hpp"

#include "cuda/gpu_block.hpp"
#include "device/cuda_launch.hpp"

namespace zeroth::cuda {

cudaError_t collect(cudaStream_t stream, float const* block_sums, std::int64_t block_count, optim::ExactSum* sum) {
  return launch_collect(OnStream{stream}, {block_sums, block_count, sum});
}

cudaError_t add_loss(cudaStream_t stream, optim::LossTerm const& term, optim::StepSums* contribution) {
  return launch_add_loss(OnStream{stream}, {term, contribution});
}

cudaError_t advance(cudaStream_t stream, optim::StepRules const& rules, optim::StepSums const* total,
                    optim::StepScalars* scalars) {
  return launch_advance(OnStream{stream}, {rules, total, scalars});
}

cudaError_t find_kernels() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, run<AddLoss>);
}

}  // namespace zeroth::cuda
