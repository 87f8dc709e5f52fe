// SPDX-License-Identifier: Apache-2.0
/// Text of unknown origin: whether it is UTF-8, and how to show it where it may not be.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Bytes of the well-formed UTF-8 character that `text` begins with (Unicode, table 3-7: no overlong forms, no
/// surrogates, nothing above U+10FFFF), or 0 if there is none.
[[nodiscard]] ZEROTH_EXPORT std::size_t utf8_length(std::string_view text) noexcept;

/// Whether all of `text` is well-formed UTF-8. A NUL is a character like any other.
[[nodiscard]] ZEROTH_EXPORT bool is_utf8(std::string_view text) noexcept;

/// `text` for messages: bytes that are no UTF-8, control characters (of C0 and C1, and those that turn the direction of
/// writing), and backslashes byte by byte in hexadecimal, as string literals have them; all else as it is. Different
/// texts stay different.
[[nodiscard]] ZEROTH_EXPORT std::string escaped(std::string_view text);

}  // namespace zeroth
