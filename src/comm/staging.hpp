// SPDX-License-Identifier: Apache-2.0
/// Sizes of scratch memory for backends whose hosts reduce data of other processes.
#pragma once
#include <cstdint>

#include "zeroth/core/dtype.hpp"

namespace zeroth::comm {

/// Bytes of the receive buffer through which `world` ranks reduce at most `largest_count` elements: all of them if they
/// are few, otherwise a buffer that is reused chunk by chunk. Zero if there is no other rank. A whole number of equal
/// blocks, one per rank.
[[nodiscard]] std::int64_t host_staging_bytes(int world, Dtype dtype, std::int64_t largest_count) noexcept;

}  // namespace zeroth::comm
