// SPDX-License-Identifier: Apache-2.0
/// The parts of message files: little-endian numbers, checksums, and the fields of protobuf's wire format, each a tag
/// of number and type followed by the value.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zeroth::monitor {

template <class Word>
std::string bytes_of(Word word) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof word; ++i) {
    bytes += static_cast<char>((static_cast<std::uint64_t>(word) >> (8 * i)) & 0xffU);
  }
  return bytes;
}

/// The 32-bit Castagnoli cyclic redundancy check (CRC-32C).
[[nodiscard]] inline std::uint32_t crc32c(std::string_view bytes) noexcept {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // reflected: least significant bit first
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      auto value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1U) ^ ((value & 1U) != 0 ? polynomial : 0U);
      }
      entries[i] = value;
    }
    return entries;
  }();
  std::uint32_t value = 0xffffffffU;
  for (char const byte : bytes) {
    value = (value >> 8U) ^ table[(value ^ static_cast<unsigned char>(byte)) & 0xffU];
  }
  return ~value;
}

namespace field {

enum Type : std::uint8_t { varint = 0, eight_bytes = 1, delimited = 2, four_bytes = 5 };

inline std::string as_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) {
    bytes += static_cast<char>((value & 0x7fU) | 0x80U);
  }
  return bytes + static_cast<char>(value);
}
inline std::string tag(unsigned number, Type type) { return as_varint((number << 3U) | type); }
/// A string field, or an embedded message.
inline std::string text(unsigned number, std::string_view value) {
  return tag(number, delimited) + as_varint(value.size()) + std::string{value};
}
inline std::string integer(unsigned number, std::int64_t value) {
  return tag(number, varint) + as_varint(static_cast<std::uint64_t>(value));
}
inline std::string real(unsigned number, double value) {
  return tag(number, eight_bytes) + bytes_of(std::bit_cast<std::uint64_t>(value));
}
inline std::string real(unsigned number, float value) {
  return tag(number, four_bytes) + bytes_of(std::bit_cast<std::uint32_t>(value));
}

}  // namespace field
}  // namespace zeroth::monitor
