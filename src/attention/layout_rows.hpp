// SPDX-License-Identifier: Apache-2.0
/// The bits that a mode sets in the layout of one head.
#pragma once
#include <algorithm>
#include <cstdint>

#include "zeroth/attention/block_layout.hpp"

namespace zeroth::attention {

/// Bits in a row of 64-bit words, lowest first.
inline constexpr std::int64_t word_bits = 64;

/// The bits of one head: [blocks, words of a row].
class HeadBits {
 public:
  HeadBits(std::uint64_t* bits, std::int64_t blocks, std::int64_t row_words) noexcept
      : bits_{bits}, blocks_{blocks}, row_words_{row_words} {}
  [[nodiscard]] std::int64_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] bool has(std::int64_t row, std::int64_t column) const noexcept {
    return (word(row, column) >> static_cast<unsigned>(column % word_bits) & 1U) != 0;
  }
  void set(std::int64_t row, std::int64_t column) noexcept {
    word(row, column) |= std::uint64_t{1} << static_cast<unsigned>(column % word_bits);
  }
  /// Sets columns [first, end) of a row, without those outside of the head.
  void set(std::int64_t row, std::int64_t first, std::int64_t end) noexcept {
    each_word(first, end, [&](std::int64_t column, std::uint64_t mask) { word(row, column) |= mask; });
  }
  /// Clears columns after the diagonal.
  void clear_later() noexcept {
    for (std::int64_t row = 0; row < blocks_; ++row) {
      each_word(row + 1, blocks_, [&](std::int64_t column, std::uint64_t mask) { word(row, column) &= ~mask; });
    }
  }

 private:
  /// Calls `f` with the first column and the mask of each part of [first, end) that is in one word.
  template <class F>
  void each_word(std::int64_t first, std::int64_t end, F const& f) const noexcept {
    end = std::min(end, blocks_);
    for (auto column = std::max<std::int64_t>(first, 0); column < end;) {
      auto const next = std::min(end, (column / word_bits + 1) * word_bits);
      auto const count = static_cast<unsigned>(next - column);
      f(column, (~std::uint64_t{0} >> (word_bits - count)) << static_cast<unsigned>(column % word_bits));
      column = next;
    }
  }
  [[nodiscard]] std::uint64_t& word(std::int64_t row, std::int64_t column) const noexcept {
    return bits_[row * row_words_ + column / word_bits];
  }

  std::uint64_t* bits_;
  std::int64_t blocks_, row_words_;
};

/// Sets the bits of `head`, all of which are zero. `parameters` have no problems.
void set_head(SparseAttention const& parameters, std::int64_t head, std::uint64_t seed, HeadBits bits);

}  // namespace zeroth::attention
