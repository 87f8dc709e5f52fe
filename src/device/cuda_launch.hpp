// SPDX-License-Identifier: Apache-2.0
/// The library's kernels on a GPU: each function enqueues on `stream` what the function of the same name in
/// device/kernels.hpp does, or device/rank_fold.hpp by sum, with the same bits. (A NaN that arithmetic makes is a NaN;
/// its payload is the device's.)
///
/// Pointers are to memory that the device reaches, and stay valid until the stream has passed, unless said otherwise.
/// Nothing is allocated, copied or waited for. The result is that of the launches, or of any work that was enqueued
/// earlier and has failed; errors of the work itself come up later, as always in CUDA. Arguments are not checked here:
/// Kernels of the device does that. Any thread may call.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "device/kernels.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::cuda {

/// `destination[i] = source[i]`, rounded to nearest even; fp32, bf16, fp16. The blocks do not overlap, or are the same
/// one of one dtype.
cudaError_t convert(cudaStream_t stream, void* destination, Dtype destination_dtype, void const* source,
                    Dtype source_dtype, std::int64_t count);

cudaError_t reduce_epilogue(cudaStream_t stream, device::ReduceEpilogue const& args);

/// `*sum` is what `block_sums` come to, exactly.
cudaError_t collect(cudaStream_t stream, float const* block_sums, std::int64_t block_count, optim::ExactSum* sum);

cudaError_t add_loss(cudaStream_t stream, optim::LossTerm const& term, optim::StepSums* contribution);

cudaError_t advance(cudaStream_t stream, optim::StepRules const& rules, optim::StepSums const* total,
                    optim::StepScalars* scalars);

/// `args.segments` and `args.update` are host memory, read before the call returns. One launch for every 96 segments.
cudaError_t update(cudaStream_t stream, optim::UpdateArgs const& args);

/// What device::rank_fold takes, with the pointers by value: a kernel cannot read the caller's arrays.
struct RankSum {
  static constexpr int most_ranks = 16;
  void* outputs[most_ranks];
  int output_count;
  void const* inputs[most_ranks];
  int input_count;
  Dtype dtype;
  std::int64_t first, count;
  float* sums;      ///< Not null: device::rank_fold_into() this instead; there are no outputs then.
  bool accumulate;  ///< To what is there.
};

cudaError_t rank_sum(cudaStream_t stream, RankSum const& args);

/// cudaSuccess where the current GPU can run these kernels, and otherwise what keeps it from that. Loads one of them.
cudaError_t find_kernels();
/// The compute capabilities that they were built for, as 10 * major + minor. Later ones may run their PTX.
std::span<int const> capabilities();

}  // namespace zeroth::cuda
