/// Hashes of short inputs, the same in every process and build.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zeroth {

/// FNV-1a of 64 bits: where nobody tries to make two inputs meet.
class Fnv1a {
 public:
  constexpr Fnv1a() noexcept = default;
  /// Of an input that begins differently for every `seed`.
  explicit constexpr Fnv1a(std::uint64_t seed) noexcept : value_{begin ^ seed} {}

  /// Characters alone: "ab" and "c" are what "a" and "bc" are.
  constexpr Fnv1a& characters(std::string_view text) noexcept {
    for (char const each : text) {
      byte(static_cast<unsigned char>(each));
    }
    return *this;
  }
  /// Eight bytes, the least first.
  constexpr void add(std::uint64_t value) noexcept {
    for (int shift = 0; shift < 64; shift += 8) {
      byte(static_cast<unsigned char>((value >> shift) & 0xffU));
    }
  }
  constexpr void add(float value) noexcept { add(std::uint64_t{std::bit_cast<std::uint32_t>(value)}); }
  /// With its length in front.
  constexpr void add(std::string_view text) noexcept {
    add(std::uint64_t{text.size()});
    characters(text);
  }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }

 private:
  constexpr void byte(unsigned char each) noexcept { value_ = (value_ ^ each) * 0x100000001b3U; }

  static constexpr std::uint64_t begin = 0xcbf29ce484222325U;
  std::uint64_t value_ = begin;
};

}  // namespace zeroth
