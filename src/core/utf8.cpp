// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/core/utf8.hpp"

#include <fmt/format.h>

#include <iterator>

namespace zeroth {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) noexcept { return static_cast<unsigned char>(text[at]); }

/// The bytes that may follow a first byte: their number, and the range of the first of them, which excludes overlong
/// forms, surrogates and code points above U+10FFFF. The others are 0x80 to 0xbf.
struct Continuation {
  std::size_t count = 0;
  unsigned least = 0x80, most = 0xbf;
};

Continuation continuation(unsigned first) noexcept {
  if (first < 0xc2 || first > 0xf4) {
    return {};
  }
  if (first < 0xe0) {
    return {.count = 1};
  }
  if (first < 0xf0) {
    return {.count = 2, .least = first == 0xe0 ? 0xa0U : 0x80U, .most = first == 0xed ? 0x9fU : 0xbfU};
  }
  return {.count = 3, .least = first == 0xf0 ? 0x90U : 0x80U, .most = first == 0xf4 ? 0x8fU : 0xbfU};
}

/// Whether a terminal would obey `character`, which is well-formed.
bool commands(std::string_view character) noexcept {
  unsigned const first = byte_at(character, 0);
  if (character.size() == 1) {
    return first < 0x20 || first == 0x7f;
  }
  unsigned const second = byte_at(character, 1);
  if (character.size() == 2) {
    return first == 0xc2 && second < 0xa0;  // C1
  }
  if (character.size() == 3 && first == 0xe2) {
    unsigned const third = byte_at(character, 2);
    return (second == 0x80 && third >= 0xaa && third <= 0xae) ||  // U+202A to U+202E
           (second == 0x81 && third >= 0xa6 && third <= 0xa9);    // U+2066 to U+2069
  }
  return false;
}

}  // namespace

std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) {
    return 0;
  }
  unsigned const first = byte_at(text, 0);
  if (first < 0x80) {
    return 1;
  }
  auto const [count, least, most] = continuation(first);
  if (count == 0 || text.size() <= count || byte_at(text, 1) < least || byte_at(text, 1) > most) {
    return 0;
  }
  for (std::size_t at = 2; at <= count; ++at) {
    if ((byte_at(text, at) & 0xc0U) != 0x80U) {
      return 0;
    }
  }
  return count + 1;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    auto const length = utf8_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

std::string escaped(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    auto const length = utf8_length(text);
    auto const piece = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || piece == "\\" || commands(piece)) {
      for (char const each : piece) {
        fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(each));
      }
    } else {
      shown += piece;
    }
    text.remove_prefix(piece.size());
  }
  return shown;
}

}  // namespace zeroth
