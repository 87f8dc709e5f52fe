// SPDX-License-Identifier: Apache-2.0
/// The parts of checkpoint.json on which writer and reader must agree, and the form in which ranks send them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::checkpoint {

/// Increased by every change that an older reader would misread. In version 1 all files had slices of all spaces; in
/// version 2 each parameter was in one space. Both are read. Version 2 is written if tensor ranks have divided no
/// parameter.
inline constexpr std::int64_t format_version = 3;
inline constexpr std::int64_t format_without_cuts = 2;
/// The line that ends the file after `text`, with the hash of `text`.
[[nodiscard]] std::string hash_line(std::string_view text);

/// Serializes spaces, to send them to another rank.
[[nodiscard]] std::string text_of_spaces(std::vector<Space> const& spaces);
/// The inverse of text_of_spaces(), for a checkpoint of `places` files. Throws SystemError.
[[nodiscard]] std::vector<Space> spaces_of_text(std::string const& text, int places);

}  // namespace zeroth::checkpoint
