// SPDX-License-Identifier: Apache-2.0
/// The fold over ranks that every communicator uses, and copies. Plain memory, on the calling thread.
#pragma once
#include <cstdint>
#include <span>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/reduce.hpp"

namespace zeroth::device {

/// `outputs[k][i] = inputs[0][i] o inputs[1][i] o ...` for i in [first, first + count) and every k, where o is the
/// operator, applied in that order; Reduce has the dtype of the intermediate results. Each input is read once, and the
/// result is stored to all outputs: a fused all-reduce. An output may be one of the inputs (the same address for the
/// same element); any other overlap is undefined. The same bits on every instruction set. At least one input; `outputs`
/// may be empty. `factor` is premul_sum's. Callers have checked is_defined(reduce, dtype).
void rank_fold(Reduce reduce, void* const* outputs, int output_count, void const* const* inputs, int input_count,
               Dtype dtype, std::int64_t first, std::int64_t count, double factor = 1) noexcept;

/// `sums[i] = ((sums[i] + inputs[0][i]) + inputs[1][i]) + ...` in fp32 for i in [0, count), or without `accumulate`
/// `(inputs[0][i] + inputs[1][i]) + ...`. `dtype` is a floating type of at most 32 bits. At least one input. `sums`
/// overlaps no input.
void rank_fold_into(float* sums, bool accumulate, void const* const* inputs, int input_count, Dtype dtype,
                    std::int64_t count) noexcept;

/// memcpy for blocks that may be large: from 12 MiB on, the stores bypass the caches, which cannot hold the block
/// anyway. For one of several blocks that are copied one after another, `in_all` is their total size: the stores bypass
/// the caches from 8 MiB in all. The blocks do not overlap, unless they are the same.
void copy_bytes(void* destination, void const* source, std::int64_t bytes, std::int64_t in_all = 0) noexcept;

/// Copies `source` to several destinations and reads it once. The stores bypass the caches from 8 MiB in all.
void copy_to_all(std::span<void* const> destinations, void const* source, std::int64_t bytes) noexcept;

}  // namespace zeroth::device
