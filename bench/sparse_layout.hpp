// SPDX-License-Identifier: Apache-2.0
/// The layout of the benchmarks of block-sparse attention.
#pragma once
#include <cstdint>

#include <zeroth/attention/block_layout.hpp>

namespace gpt {

/// Windows, a global block and random blocks; about an eighth of the blocks of a context of 8,192.
[[nodiscard]] inline zeroth::BlockLayout benchmark_layout(std::int64_t heads, std::int64_t context) {
  return {{.mode = zeroth::SparseMode::bigbird,
           .block = 64,
           .attention = zeroth::AttentionDirection::unidirectional,
           .num_random_blocks = 4,
           .num_sliding_window_blocks = 7},
          heads,
          context};
}

}  // namespace gpt
