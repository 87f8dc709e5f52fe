// SPDX-License-Identifier: Apache-2.0
/// Launches of the library's GPU kernels. Each function enqueues on `stream` the function of the same name in
/// device/kernels.hpp, or the sum of device/rank_fold.hpp, with the same bits. (Arithmetic that yields a NaN yields one
/// here too, but its payload is the device's.)
///
/// Unless noted otherwise, pointers are to memory that the device can access, and stay valid until the stream has
/// passed. Nothing is allocated, copied or waited for. The result is an error of the launches, or of earlier work that
/// has failed. Errors of the work itself are reported later, as always in CUDA. The device's Kernels check the
/// arguments, not these functions. Any thread may call.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "device/kernels.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/reduce.hpp"
#include "zeroth/optim/step_scalars.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::cuda {

/// `destination[i] = source[i]`, rounded to nearest even, for fp32, bf16 and fp16. The blocks do not overlap, unless
/// they are the same one of one dtype.
cudaError_t convert(cudaStream_t stream, void* destination, Dtype destination_dtype, void const* source,
                    Dtype source_dtype, std::int64_t count);

cudaError_t reduce_epilogue(cudaStream_t stream, device::ReduceEpilogue const& args);

/// See Kernels::encode(), fold_received() and quantise().
cudaError_t encode(cudaStream_t stream, device::Encode const& args);
cudaError_t quantise(cudaStream_t stream, device::Quantise const& args);
cudaError_t fold_received(cudaStream_t stream, device::FoldReceived const& args);

/// Stores the exact sum of `block_sums` in `*sum`.
cudaError_t collect(cudaStream_t stream, float const* block_sums, std::int64_t block_count, optim::ExactSum* sum);

cudaError_t add_loss(cudaStream_t stream, optim::LossTerm const& term, optim::StepSums* contribution);

cudaError_t advance(cudaStream_t stream, optim::StepRules const& rules, optim::StepSums const* total,
                    optim::StepScalars* scalars);

/// `args.segments` and `args.update` are host memory, read before the call returns. One launch per 80 segments.
cudaError_t update(cudaStream_t stream, optim::UpdateArgs const& args);

/// See Kernels::move_moments() and trust_ratios(). `args.update` is as update() takes it, and `args.rule` host memory.
cudaError_t move_moments(cudaStream_t stream, device::MoveMoments const& args);
cudaError_t trust_ratios(cudaStream_t stream, device::TrustRatios const& args);

/// optim::direction() on a GPU. `args.rule` is host memory, read before the call returns.
cudaError_t direction(cudaStream_t stream, optim::DirectionArgs const& args);

/// `result[i] = matrix[i] / optim::matrix_norm(squares)`. If `skip` is set, 0.
struct Normalise {
  bf16 const* matrix = nullptr;              ///< [count]
  optim::ExactSum const* squares = nullptr;  ///< Sum of the squares of all elements.
  bf16* result = nullptr;                    ///< [count]; may be `matrix`
  std::int64_t count = 0;                    ///< Elements of each array.
  optim::StepScalars const* scalars = nullptr;
};
cudaError_t normalise(cudaStream_t stream, Normalise const& args);

/// The arguments of device::rank_fold, with the pointers by value: a kernel cannot read the caller's arrays.
struct RankFold {
  static constexpr int most_ranks = 16;
  void* outputs[most_ranks];
  int output_count;
  void const* inputs[most_ranks];
  int input_count;
  Reduce reduce;  ///< sum; or maximum or premul_sum, of a floating type.
  Dtype dtype;
  std::int64_t first, count;
  float* sums;      ///< If not null, computes device::rank_fold_into() instead, without outputs.
  bool accumulate;  ///< Adds to the existing sums.
  double factor;    ///< For premul_sum.
};

cudaError_t rank_fold(cudaStream_t stream, RankFold const& args);

/// cudaSuccess if the current GPU can run these kernels, otherwise the error that prevents it. Loads one of them.
cudaError_t find_kernels();
/// The compute capabilities that the kernels were built for, as 10 * major + minor. Later ones may run their PTX.
std::span<int const> capabilities();

}  // namespace zeroth::cuda
