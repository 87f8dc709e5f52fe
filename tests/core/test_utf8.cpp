// SPDX-License-Identifier: Apache-2.0
/// Recognition of UTF-8, compared with an encoder, over every character and every pair of bytes that could begin one.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::testing {
namespace {

std::string bytes(std::vector<unsigned> const& values) {
  std::string text;
  for (auto const value : values) {
    text += static_cast<char>(value);
  }
  return text;
}

/// A character as its bytes, by the definition: 7, 5 + 6, 4 + 6 + 6 or 3 + 6 + 6 + 6 bits.
std::string encoded(std::uint32_t character) {
  if (character < 0x80) {
    return bytes({character});
  }
  if (character < 0x800) {
    return bytes({0xc0 | character >> 6, 0x80 | (character & 0x3f)});
  }
  if (character < 0x10000) {
    return bytes({0xe0 | character >> 12, 0x80 | (character >> 6 & 0x3f), 0x80 | (character & 0x3f)});
  }
  return bytes({0xf0 | character >> 18, 0x80 | (character >> 12 & 0x3f), 0x80 | (character >> 6 & 0x3f),
                0x80 | (character & 0x3f)});
}

bool is_surrogate(std::uint32_t character) { return character >= 0xd800 && character < 0xe000; }

}  // namespace

TEST_CASE("every Unicode character is valid UTF-8, and lookalikes are not") {
  std::vector<std::uint32_t> wrong;
  for (std::uint32_t character = 0; character <= 0x1fffff; ++character) {  // the largest value of four bytes
    bool const exists = character <= 0x10ffff && !is_surrogate(character);
    auto const text = encoded(character);
    if (is_utf8(text) != exists || utf8_length(text + "x") != (exists ? text.size() : 0)) {
      wrong.push_back(character);
    }
  }
  CHECK(wrong.empty());
}

TEST_CASE("two bytes are UTF-8 only as two ASCII characters or one two-byte character") {
  std::vector<std::string> wrong;
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      bool const ascii = first < 0x80 && second < 0x80;
      bool const pair = first >= 0xc2 && first < 0xe0 && second >= 0x80 && second < 0xc0;
      if (is_utf8(bytes({first, second})) != (ascii || pair)) {
        wrong.push_back(bytes({first, second}));
      }
    }
  }
  CHECK(wrong.empty());
}

TEST_CASE("overlong forms and truncated characters are not UTF-8") {
  CHECK(is_utf8(""));
  CHECK_FALSE(is_utf8(bytes({0xc0, 0x80})));              // NUL in two bytes
  CHECK_FALSE(is_utf8(bytes({0xe0, 0x9f, 0xbf})));        // U+07FF in three
  CHECK_FALSE(is_utf8(bytes({0xf0, 0x8f, 0xbf, 0xbf})));  // U+FFFF in four
  CHECK_FALSE(is_utf8(bytes({0xf8, 0x88, 0x80, 0x80, 0x80})));
  for (std::uint32_t const character : {0xe9U, 0x20acU, 0x1f600U}) {
    auto const whole = encoded(character);
    for (std::size_t length = 1; length < whole.size(); ++length) {
      CHECK_FALSE(is_utf8("a" + whole.substr(0, length)));
      CHECK_FALSE(is_utf8(whole.substr(0, length) + "a"));
      CHECK_FALSE(is_utf8(whole.substr(length)));
    }
  }
}

TEST_CASE("escaped text is printable UTF-8 that shows the original bytes") {
  CHECK(escaped("block.0/weight") == "block.0/weight");
  CHECK(escaped(encoded(0xe9) + encoded(0x4e2d)) == encoded(0xe9) + encoded(0x4e2d));
  CHECK(escaped("caf\xe9") == "caf\\xe9");
  CHECK(escaped(encoded(0x20ac).substr(0, 2) + "!") == "\\xe2\\x82!");
  CHECK(escaped(std::string_view{"a\0b\n\x1b[2J\x7f", 9}) == "a\\x00b\\x0a\\x1b[2J\\x7f");
  CHECK(escaped("\\xe9") == "\\x5cxe9");                 // differs from the escaped byte 0xe9
  CHECK(escaped(encoded(0x9b)) == "\\xc2\\x9b");         // begins commands of a terminal
  CHECK(escaped(encoded(0xa0)) == encoded(0xa0));        // next to it
  CHECK(escaped(encoded(0x202e)) == "\\xe2\\x80\\xae");  // right to left
  CHECK(escaped(encoded(0x2066)) == "\\xe2\\x81\\xa6");
  CHECK(escaped(encoded(0x2030)) == encoded(0x2030));
}

}  // namespace zeroth::testing
