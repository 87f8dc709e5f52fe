// SPDX-License-Identifier: Apache-2.0
/// Elements of any dtype in closed form, as their bits.
#pragma once
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth::comm::conformance {

/// The dtypes of numbers.
inline constexpr Dtype all_dtypes[] = {Dtype::fp32,  Dtype::bf16,  Dtype::fp16, Dtype::fp64,
                                       Dtype::int32, Dtype::int64, Dtype::byte, Dtype::int8};

/// Only the low bytes_of(dtype) bytes are used.
using Bits = std::uint64_t;

/// The contributions of ranks, and their sum in rank order.
struct Source {
  Bits (*element)(Dtype dtype, int rank, std::int64_t index);
  Bits (*sum)(Dtype dtype, int world, std::int64_t index);
};

/// Small whole numbers, different on neighbouring ranks and elements: sums are exact in every dtype.
extern Source const small_numbers;
/// Numbers of all magnitudes and signs, so that most sums depend on the order of additions; integers that overflow.
extern Source const rough_numbers;

/// For data that is moved and not added: any bits, different in nearly every element.
[[nodiscard]] Bits pattern(Dtype dtype, int rank, std::int64_t index) noexcept;
/// Deterministic, so that all ranks draw the same programs.
[[nodiscard]] std::uint64_t scramble(std::uint64_t value) noexcept;

}  // namespace zeroth::comm::conformance
