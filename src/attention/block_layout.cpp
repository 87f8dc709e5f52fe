// SPDX-License-Identifier: Apache-2.0
#include "zeroth/attention/block_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "attention/layout_rows.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

void expect_index(std::string_view name, std::int64_t value, std::int64_t count) {
  ZEROTH_EXPECTS(value >= 0 && value < count,
                 fmt::format("BlockLayout: {} is {}; allowed: 0 to {}", name, value, count - 1));
}

/// Returns the parameters, so that it may be called before members are computed from them.
SparseAttention const& checked(SparseAttention const& parameters, std::int64_t heads, std::int64_t context) {
  ZEROTH_EXPECTS(heads >= 1, fmt::format("BlockLayout of {} heads; allowed: 1 or more", heads));
  ZEROTH_EXPECTS(context >= 1, fmt::format("BlockLayout of a context of {} tokens; allowed: 1 or more", context));
  std::string message;
  for (auto const& problem : parameters.problems(context)) {
    message += fmt::format("{}{} is {}", message.empty() ? "" : "\n  ", problem.field, problem.why);
  }
  ZEROTH_EXPECTS(message.empty(), fmt::format("BlockLayout of mode \"{}\": {}", name_of(parameters.mode), message));
  return parameters;
}

}  // namespace

BlockLayout::BlockLayout(SparseAttention const& parameters, std::int64_t heads, std::int64_t context,
                         std::uint64_t seed)
    : heads_{heads},
      blocks_{context / checked(parameters, heads, context).block},
      block_{parameters.block},
      stored_heads_{parameters.uses("different_layout_per_head") && parameters.different_layout_per_head ? heads : 1},
      row_words_{(blocks_ + attention::word_bits - 1) / attention::word_bits},
      causal_{parameters.attention == AttentionDirection::unidirectional},
      bits_(static_cast<std::size_t>(stored_heads_ * blocks_ * row_words_)) {
  for (std::int64_t head = 0; head < stored_heads_; ++head) {
    attention::set_head(parameters, head, seed, {bits_.data() + head * blocks_ * row_words_, blocks_, row_words_});
  }
}

std::uint64_t const* BlockLayout::row_of(std::int64_t head, std::int64_t row) const noexcept {
  return bits_.data() + ((stored_heads_ == 1 ? 0 : head) * blocks_ + row) * row_words_;
}

bool BlockLayout::has(std::int64_t head, std::int64_t row, std::int64_t column) const {
  expect_index("the head", head, heads_);
  expect_index("the row", row, blocks_);
  expect_index("the column", column, blocks_);
  auto const word = row_of(head, row)[column / attention::word_bits];
  return (word >> static_cast<unsigned>(column % attention::word_bits) & 1U) != 0;
}

std::vector<std::int64_t> BlockLayout::columns(std::int64_t head, std::int64_t row) const {
  expect_index("the head", head, heads_);
  expect_index("the row", row, blocks_);
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < row_words_; ++i) {
    for (auto word = row_of(head, row)[i]; word != 0; word &= word - 1) {
      result.push_back(i * attention::word_bits + std::countr_zero(word));
    }
  }
  return result;
}

std::int64_t BlockLayout::count(std::int64_t head) const {
  expect_index("the head", head, heads_);
  std::int64_t result = 0;
  auto const* const first = row_of(head, 0);
  std::for_each(first, first + blocks_ * row_words_, [&](std::uint64_t word) { result += std::popcount(word); });
  return result;
}

double BlockLayout::density() const noexcept {
  std::int64_t set = 0;
  for (auto const word : bits_) {
    set += std::popcount(word);
  }
  auto const of_dense = causal_ ? blocks_ * (blocks_ + 1) / 2 : blocks_ * blocks_;
  return static_cast<double>(set) / static_cast<double>(stored_heads_ * of_dense);
}

bool BlockLayout::equal_bits(BlockLayout const& other) const noexcept {
  auto const size = static_cast<std::size_t>(blocks_ * row_words_);
  for (std::int64_t head = 0; head < std::max(stored_heads_, other.stored_heads_); ++head) {
    if (!std::equal(row_of(head, 0), row_of(head, 0) + size, other.row_of(head, 0))) {
      return false;
    }
  }
  return true;
}

}  // namespace zeroth
