// SPDX-License-Identifier: Apache-2.0
/// The element loops of the CPU kernels. They run on the calling thread, with the same bits on every instruction set.
#pragma once
#include "device/kernels.hpp"

namespace zeroth::device {

/// `destination[i] = source[i]`, rounded to nearest even. The blocks do not overlap, unless they are the same one of
/// one dtype.
void convert_elements(void* destination, Dtype destination_dtype, void const* source, Dtype source_dtype,
                      std::int64_t count) noexcept;

/// Implements Kernels::reduce_epilogue in one pass over memory.
void reduce_epilogue(ReduceEpilogue const& args) noexcept;

/// The sum of block sums as Kernels::collect computes it, in the same order.
[[nodiscard]] optim::ExactSum total_of(float const* values, std::int64_t count) noexcept;

}  // namespace zeroth::device
