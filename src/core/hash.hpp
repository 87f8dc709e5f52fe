// SPDX-License-Identifier: Apache-2.0
/// Hashes of short inputs, the same in every process and build. Not for inputs that somebody may craft to collide.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace zeroth {

/// FNV-1a (Fowler, Noll, Vo) of 32 or 64 bits.
template <class Word>
class BasicFnv1a {
  static_assert(std::is_same_v<Word, std::uint32_t> || std::is_same_v<Word, std::uint64_t>);

 public:
  constexpr BasicFnv1a() noexcept = default;
  /// Every `seed` gives a different hash function.
  explicit constexpr BasicFnv1a(Word seed) noexcept : value_{begin ^ seed} {}

  /// Adds characters without a length: "ab" then "c" hashes like "a" then "bc".
  constexpr BasicFnv1a& characters(std::string_view text) noexcept {
    for (char const each : text) {
      byte(static_cast<unsigned char>(each));
    }
    return *this;
  }
  /// Adds eight bytes, the least significant first.
  constexpr void add(std::uint64_t value) noexcept {
    for (int shift = 0; shift < 64; shift += 8) {
      byte(static_cast<unsigned char>((value >> shift) & 0xffU));
    }
  }
  constexpr void add(float value) noexcept { add(std::uint64_t{std::bit_cast<std::uint32_t>(value)}); }
  /// Adds the length, then the characters.
  constexpr void add(std::string_view text) noexcept {
    add(std::uint64_t{text.size()});
    characters(text);
  }
  [[nodiscard]] constexpr Word value() const noexcept { return value_; }

 private:
  constexpr void byte(unsigned char each) noexcept { value_ = (value_ ^ each) * prime; }

  static constexpr bool is_wide = sizeof(Word) == sizeof(std::uint64_t);
  static constexpr Word begin = static_cast<Word>(is_wide ? 0xcbf29ce484222325U : 0x811c9dc5U);
  static constexpr Word prime = static_cast<Word>(is_wide ? 0x100000001b3U : 0x1000193U);
  Word value_ = begin;
};
using Fnv1a = BasicFnv1a<std::uint64_t>;
using Fnv1a32 = BasicFnv1a<std::uint32_t>;

/// 2^64 divided by the golden ratio: its multiples lie far apart (Knuth, The Art of Computer Programming 3, 6.4).
constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15U;

/// Spreads the entropy of a few bits over all 64: one round in the manner of splitmix64 (Steele, Lea, Flood 2014). It
/// is a bijection.
[[nodiscard]] constexpr std::uint64_t spread(std::uint64_t value) noexcept {
  value ^= value >> 29U;
  value *= 0xbf58476d1ce4e5b9U;
  return value ^ (value >> 32U);
}
/// Hashes an ordered pair.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  return spread(a * golden_ratio + b + 1);
}

}  // namespace zeroth
