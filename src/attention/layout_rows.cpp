// SPDX-License-Identifier: Apache-2.0
#include "attention/layout_rows.hpp"

#include "zeroth/core/philox.hpp"

namespace zeroth::attention {
namespace {

bool is_causal(SparseAttention const& p) { return p.attention == AttentionDirection::unidirectional; }

/// All queries read the global blocks [first, end); with `rows`, queries in them read all keys.
void set_global(std::int64_t first, std::int64_t end, bool rows, HeadBits& bits) {
  for (std::int64_t row = 0; row < bits.blocks(); ++row) {
    bits.set(row, first, end);
  }
  if (rows) {
    for (auto row = first; row < std::min(end, bits.blocks()); ++row) {
      bits.set(row, 0, bits.blocks());
    }
  }
}

/// The window [first, end), whose blocks read each other.
void set_window(std::int64_t first, std::int64_t end, HeadBits& bits) {
  for (auto row = first; row < std::min(end, bits.blocks()); ++row) {
    bits.set(row, first, end);
  }
}

void set_windows(std::int64_t first, std::int64_t size, HeadBits& bits) {
  size = std::min(size, bits.blocks());
  for (; first < bits.blocks(); first += size) {
    set_window(first, first + size, bits);
  }
}

void set_sliding_window(SparseAttention const& p, HeadBits& bits) {
  auto const reach = p.num_sliding_window_blocks / 2;
  for (std::int64_t row = 0; row < bits.blocks(); ++row) {
    bits.set(row, row - reach, row + reach + 1);
  }
}

/// Distinct columns for each row, before any other bit is set. A causal row takes them from its own and earlier blocks;
/// if it has fewer, it takes all. Floyd's choice (Bentley and Floyd 1987): one number for each column.
void set_random(SparseAttention const& p, std::int64_t head, std::uint64_t seed, HeadBits& bits) {
  // zeroth::Random never has this key for the same seed.
  PhiloxKey const key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)};
  for (std::int64_t row = 0; row < bits.blocks(); ++row) {
    auto const choices = is_causal(p) ? row + 1 : bits.blocks();
    auto const first = std::max<std::int64_t>(choices - p.num_random_blocks, 0);
    for (auto last = first; last < choices; ++last) {
      auto const draw = static_cast<std::uint32_t>(last - first);
      auto const words = philox(key, {draw / 4, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(head), 0});
      auto const range = static_cast<std::uint64_t>(last + 1);
      auto const chosen = static_cast<std::int64_t>(words[draw % 4] * range >> 32U);
      bits.set(row, bits.has(row, chosen) ? last : chosen);
    }
  }
}

void set_fixed(SparseAttention const& p, std::int64_t head, HeadBits& bits) {
  set_windows(0, p.num_local_blocks, bits);
  auto const pattern = head % p.num_different_global_patterns;
  auto const at = p.num_local_blocks - (pattern + 1) * p.num_global_blocks;
  for (std::int64_t window = 0; window < bits.blocks(); window += p.num_local_blocks) {
    bool const whole = window + p.num_local_blocks <= bits.blocks();
    auto const first = whole ? window + at : std::min(window + at, bits.blocks() - p.num_global_blocks);
    set_global(first, first + p.num_global_blocks, p.horizontal_global_attention, bits);
  }
}

void set_given_global(SparseAttention const& p, bool rows, HeadBits& bits) {
  for (std::size_t i = 0; i < p.global_block_indices.size(); ++i) {
    auto const first = std::min(p.global_block_indices[i], bits.blocks());
    set_global(first, p.global_block_end_indices.empty() ? first + 1 : p.global_block_end_indices[i], rows, bits);
  }
}

void set_variable(SparseAttention const& p, HeadBits& bits) {
  std::int64_t first = 0;
  for (auto const size : p.local_window_blocks) {
    auto const end = first + std::min(size, bits.blocks() - first);
    set_window(first, end, bits);
    first = end;
  }
  set_windows(first, p.local_window_blocks.back(), bits);
  set_given_global(p, p.horizontal_global_attention, bits);
}

}  // namespace

void set_head(SparseAttention const& parameters, std::int64_t head, std::uint64_t seed, HeadBits bits) {
  if (parameters.uses("num_random_blocks")) {
    set_random(parameters, head, seed, bits);
  }
  if (parameters.uses("num_sliding_window_blocks")) {
    set_sliding_window(parameters, bits);
  }
  switch (parameters.mode) {
    case SparseMode::dense: set_window(0, bits.blocks(), bits); break;
    case SparseMode::fixed: set_fixed(parameters, head, bits); break;
    case SparseMode::variable: set_variable(parameters, bits); break;
    case SparseMode::bigbird: set_global(0, parameters.num_global_blocks, true, bits); break;
    case SparseMode::bslongformer: set_given_global(parameters, true, bits); break;
    case SparseMode::local_sliding_window: break;
  }
  if (is_causal(parameters)) {
    bits.clear_later();
  }
}

}  // namespace zeroth::attention
