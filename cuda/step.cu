#include "cuda/kernels/step.hpp"

#include "cuda/gpu_block.hpp"
#include "cuda/launch.hpp"

namespace zeroth::cuda {

cudaError_t collect(cudaStream_t stream, float const* block_sums, std::int64_t block_count, optim::StepSums const& host,
                    optim::StepSums* contribution) {
  return OnStream{stream}(Collect{block_sums, block_count, host, contribution}, 1);
}

cudaError_t add_loss(cudaStream_t stream, optim::LossTerm const& term, optim::StepSums* contribution) {
  return OnStream{stream}(AddLoss{term, contribution}, 1);
}

cudaError_t advance(cudaStream_t stream, optim::StepRules const& rules, optim::StepSums const* total,
                    optim::StepScalars* scalars) {
  return OnStream{stream}(Advance{rules, total, scalars}, 1);
}

}  // namespace zeroth::cuda
