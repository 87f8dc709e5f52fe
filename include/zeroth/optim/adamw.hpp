/// Adam and AdamW on contiguous elements, in one pass that also writes the low-precision parameters, or rounds masters
/// that are low-precision parameters.
#pragma once
#include <cstdint>
#include <span>

#include "zeroth/core/dtype.hpp"
#include "zeroth/optim/step_scalars.hpp"

namespace zeroth::optim {

/// Elements [begin, end) share these factors: one parameter's part of a shard.
struct AdamwSegment {
  std::int64_t begin = 0, end = 0;
  float learning_rate_factor = 1, weight_decay_factor = 1;  ///< Times the rules' values.
  std::int64_t element = 0;  ///< Place of the first one in the model: what the noise of stochastic rounding follows.
};

struct AdamwArgs {
  void* master = nullptr;             ///< [count]
  Dtype master_dtype = Dtype::fp32;   ///< fp32; or bf16: the parameter itself then, and `parameter` is null
  void* m = nullptr;                  ///< [count]
  void* v = nullptr;                  ///< [count]
  Dtype moments_dtype = Dtype::fp32;  ///< fp32; or bf16 where masters are
  void const* gradient = nullptr;
  Dtype gradient_dtype = Dtype::fp32;
  void* parameter = nullptr;  ///< [count] of `parameter_dtype`, rounded from the master; null if master is all there is
  Dtype parameter_dtype = Dtype::fp32;
  std::int64_t count = 0;
  std::span<AdamwSegment const> segments;  ///< Ascending, disjoint; elements in none (padding) are left alone.
  AdamRules rules;
  StepScalars const* scalars = nullptr;  ///< Read when the kernel runs. Does nothing where `skip` is set.
};

/// Kingma and Ba 2015, algorithm 1; with decoupled_decay, Loshchilov and Hutter 2019, algorithm 2. Element-wise IEEE
/// operations without contraction: the same bits from AVX-512, AVX2 and plain code. Reads and writes each stream once:
/// 28 bytes an element with fp32 gradients and masters alone. Runs on the calling thread.
///
/// Masters and moments of bf16 are widened, updated in fp32 and rounded stochastically. Their noise is a function of
/// AdamRules::rounding_seed, StepScalars::applied and AdamwSegment::element alone.
void adamw(AdamwArgs const& args) noexcept;

}  // namespace zeroth::optim
