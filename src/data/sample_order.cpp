// SPDX-License-Identifier: Apache-2.0
#include "zeroth/data/sample_order.hpp"

#include <fmt/format.h>

#include <bit>

#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

/// Spreads every bit of `value` over all of the result (the finaliser of SplitMix64, Steele et al. 2014).
std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

/// The position of `index` in the permutation of 0 ... count - 1 that `key` selects. A Feistel network permutes a power
/// of four above `count`; a result outside the range is permuted again. Saved runs rely on it: never change it.
std::uint64_t permute(std::uint64_t index, std::uint64_t count, std::uint64_t key) noexcept {
  constexpr std::uint64_t rounds = 8;
  unsigned const half_bits = (static_cast<unsigned>(std::bit_width(count)) + 1) / 2;
  std::uint64_t const mask = (std::uint64_t{1} << half_bits) - 1;
  do {
    std::uint64_t left = index >> half_bits;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::uint64_t const next = left ^ (mix(mix(key + round) + right) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits | right;
  } while (index >= count);
  return index;
}

}  // namespace

SampleOrder::SampleOrder(std::int64_t size, SampleOrderOptions options) : size_{size}, options_{options} {
  ZEROTH_EXPECTS(size >= 1, fmt::format("SampleOrder: the data set has {} samples; allowed: 1 or more", size));
}

std::int64_t SampleOrder::operator[](std::int64_t position) const {
  auto const before = epoch(position);
  auto const place = position % size_;
  if (!options_.shuffled) {
    return place;
  }
  return static_cast<std::int64_t>(permute(static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(size_),
                                           mix(mix(options_.seed) + static_cast<std::uint64_t>(before))));
}

std::int64_t SampleOrder::epoch(std::int64_t position) const {
  ZEROTH_EXPECTS(position >= 0, fmt::format("SampleOrder: the position is {}; allowed: 0 or more", position));
  return position / size_;
}

bool SampleOrder::operator==(SampleOrder const& other) const noexcept {
  return size_ == other.size_ && shuffled() == other.shuffled() && (!shuffled() || seed() == other.seed());
}

}  // namespace zeroth
