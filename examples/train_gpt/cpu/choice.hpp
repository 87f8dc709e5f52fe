// SPDX-License-Identifier: Apache-2.0
/// Chooses the matrix library of a rank: once per process, the same on all ranks.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include <zeroth/comm/job.hpp>
#include <zeroth/core/dtype.hpp>

#include "cpu/matmul.hpp"
#include "math_library.hpp"

namespace gpt::cpu {

struct Processor {
  bool amd = false;
  std::optional<std::string> onednn_isa;  ///< nullopt without oneDNN.
};
/// The meaning of MathLibrary::automatic: the library that was faster where both were measured. fp32: oneDNN with
/// AVX-512. bf16: oneDNN with AMX, and on AMD's processors with AVX512_BF16, where products run at twice the rate of
/// fp32; on Intel's without AMX they are slower than Eigen's widened ones. fp16, and everything else: Eigen.
[[nodiscard]] MathLibrary best_library(Processor const& processor, zeroth::Dtype compute);

/// Throws ConfigError for a library that is not available, or has no products of `compute`.
[[nodiscard]] MathChoice choose(MathLibrary asked, zeroth::Dtype compute);
/// Throws ConfigError on rank 0, which names two ranks, if ranks have chosen differently. Collective; waits.
void expect_same_on_all_ranks(zeroth::Job& job, MathChoice const& choice);
[[nodiscard]] std::unique_ptr<Matmul> make_matmul(MathChoice const& choice);

}  // namespace gpt::cpu
