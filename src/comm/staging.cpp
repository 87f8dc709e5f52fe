// SPDX-License-Identifier: Apache-2.0
#include "comm/staging.hpp"

#include <algorithm>

namespace zeroth::comm {
namespace {

constexpr std::int64_t chunk_bytes = 8 << 20;
constexpr std::int64_t page_bytes = 4096;

}  // namespace

std::int64_t host_staging_bytes(int world, Dtype dtype, std::int64_t largest_count) noexcept {
  if (world <= 1 || largest_count <= 0) {
    return 0;
  }
  std::int64_t const page_row_bytes = world * page_bytes;
  std::int64_t const chunk = std::max(std::int64_t{1}, chunk_bytes / page_row_bytes) * page_row_bytes;
  std::int64_t const block_count = (largest_count - 1) / world + 1;  // not (count + world - 1), which may overflow
  if (block_count > chunk / world / bytes_of(dtype)) {
    return chunk;
  }
  return block_count * world * bytes_of(dtype);
}

}  // namespace zeroth::comm
