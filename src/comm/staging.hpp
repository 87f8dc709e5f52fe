// SPDX-License-Identifier: Apache-2.0
/// Scratch memory of the backends whose hosts reduce what other processes sent, as arithmetic.
#pragma once
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth::comm {

/// Bytes of the receive buffer through which `world` ranks reduce at most `largest_count` elements: all of them where
/// they are few, otherwise a buffer that is used again chunk by chunk. Zero where there is nobody to receive from.
/// A whole number of equal blocks, one per rank.
[[nodiscard]] std::int64_t host_staging_bytes(int world, Dtype dtype, std::int64_t largest_count) noexcept;

}  // namespace zeroth::comm
