// SPDX-License-Identifier: Apache-2.0
/// Text of unknown encoding: checks whether it is UTF-8, and makes it printable.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// Length in bytes of the well-formed UTF-8 character at the start of `text` (Unicode, table 3-7: no overlong forms, no
/// surrogates, nothing above U+10FFFF), or 0 if there is none.
[[nodiscard]] ZEROTH_EXPORT std::size_t utf8_length(std::string_view text) noexcept;

/// Whether all of `text` is well-formed UTF-8. NUL is valid.
[[nodiscard]] ZEROTH_EXPORT bool is_utf8(std::string_view text) noexcept;

/// `text` for messages. Bytes that are not UTF-8, control characters (C0, C1, and those that change the direction of
/// writing) and backslashes become hexadecimal escapes as in string literals; everything else is unchanged. Different
/// texts stay different.
[[nodiscard]] ZEROTH_EXPORT std::string escaped(std::string_view text);

}  // namespace zeroth
