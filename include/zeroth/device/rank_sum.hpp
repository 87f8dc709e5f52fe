/// The sum over ranks that every communicator uses, and the copy beside it. Plain memory, on the calling thread.
#pragma once
#include <cstdint>
#include <span>

#include "zeroth/core/dtype.hpp"

namespace zeroth::device {

/// `outputs[k][i] = inputs[0][i] + inputs[1][i] + ...` for i in [first, first + count) and every k, added in that
/// order. Each input is read once and the sum is stored to all outputs: a fused all-reduce. An output may be one of the
/// inputs (the same address for the same element); any other overlap is undefined. bf16 and fp16 are added in fp32 and
/// rounded once, other types in themselves; integers wrap around, bytes count as unsigned. The same bits on every
/// instruction set. At least one input; outputs may be none.
void rank_sum(void* const* outputs, int output_count, void const* const* inputs, int input_count, Dtype dtype,
              std::int64_t first, std::int64_t count) noexcept;

/// memcpy for blocks that may be large: from 12 MiB on the stores go around the caches, which cannot hold them anyway.
/// The blocks do not overlap, or are the same.
void copy_bytes(void* destination, void const* source, std::int64_t bytes) noexcept;

/// The same for several destinations, reading the source once. Around the caches from 8 MiB in all.
void copy_to_all(std::span<void* const> destinations, void const* source, std::int64_t bytes) noexcept;

}  // namespace zeroth::device
