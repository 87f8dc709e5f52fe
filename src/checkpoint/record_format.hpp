// SPDX-License-Identifier: Apache-2.0
/// What the writer and the reader of checkpoint.json have to agree on, and what ranks send of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::checkpoint {

/// Another one for every change that a reader of before would misread. In 1 all files had slices of all spaces, in 2
/// each parameter was in one. Both are read, and 2 is written where no tensor ranks have cut any.
inline constexpr std::int64_t format_version = 3;
inline constexpr std::int64_t format_without_cuts = 2;
/// What follows `text`, all that comes before it, to the end of the file.
[[nodiscard]] std::string hash_line(std::string_view text);

/// Spaces on their way from one rank to another.
[[nodiscard]] std::string text_of_spaces(std::vector<Space> const& spaces);
/// The inverse, for a checkpoint of `places` files. Throws SystemError.
[[nodiscard]] std::vector<Space> spaces_of_text(std::string const& text, int places);

}  // namespace zeroth::checkpoint
