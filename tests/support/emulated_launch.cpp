#include "support/emulated_launch.hpp"

#include "cuda/kernels/adamw.hpp"
#include "cuda/kernels/move.hpp"
#include "cuda/kernels/rank_sum.hpp"
#include "cuda/kernels/reduce_epilogue.hpp"
#include "cuda/kernels/step.hpp"
#include "cuda/launch.hpp"

namespace zeroth {
namespace testing {
namespace {

/// What cuda/gpu_block.hpp calls OnStream. The body is copied when it is launched, as a kernel's arguments are.
struct OnEmulator {
  cudaStream_t stream;

  template <class Body>
  [[nodiscard]] cudaError_t operator()(Body const& body, std::int64_t blocks) const {
    enqueue(stream, [body, blocks, how = emulation()] { emulate(body, blocks, how); });
    return cudaSuccess;
  }
};

}  // namespace

Emulation& emulation() {
  static Emulation how;
  return how;
}

}  // namespace testing

namespace cuda {

using testing::OnEmulator;

cudaError_t convert(cudaStream_t stream, void* destination, Dtype destination_dtype, void const* source,
                    Dtype source_dtype, std::int64_t count) {
  return launch_convert(OnEmulator{stream}, destination, destination_dtype, source, source_dtype, count);
}

cudaError_t reduce_epilogue(cudaStream_t stream, device::ReduceEpilogue const& args) {
  return launch_reduce_epilogue(OnEmulator{stream}, args);
}

cudaError_t collect(cudaStream_t stream, float const* block_sums, std::int64_t block_count, optim::StepSums const& host,
                    optim::StepSums* contribution) {
  return launch_collect(OnEmulator{stream}, {block_sums, block_count, host, contribution});
}

cudaError_t add_loss(cudaStream_t stream, optim::LossTerm const& term, optim::StepSums* contribution) {
  return launch_add_loss(OnEmulator{stream}, {term, contribution});
}

cudaError_t advance(cudaStream_t stream, optim::StepRules const& rules, optim::StepSums const* total,
                    optim::StepScalars* scalars) {
  return launch_advance(OnEmulator{stream}, {rules, total, scalars});
}

cudaError_t adamw(cudaStream_t stream, optim::AdamwArgs const& args) { return launch_adamw(OnEmulator{stream}, args); }

cudaError_t rank_sum(cudaStream_t stream, RankSum const& args) { return launch_rank_sum(OnEmulator{stream}, args); }

}  // namespace cuda
}  // namespace zeroth
