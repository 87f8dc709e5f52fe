// SPDX-License-Identifier: Apache-2.0
/// What the CPU kernels do to elements. On the calling thread; the same bits on every instruction set.
#pragma once
#include "device/kernels.hpp"

namespace zeroth::device {

/// `destination[i] = source[i]`, rounded to nearest even. The blocks do not overlap, or are the same one of one dtype.
void convert_elements(void* destination, Dtype destination_dtype, void const* source, Dtype source_dtype,
                      std::int64_t count) noexcept;

/// Kernels::reduce_epilogue, in one pass over memory.
void reduce_epilogue(ReduceEpilogue const& args) noexcept;

/// The sum that Kernels::collect makes of block sums, in its order.
[[nodiscard]] optim::ExactSum total_of(float const* values, std::int64_t count) noexcept;

}  // namespace zeroth::device
