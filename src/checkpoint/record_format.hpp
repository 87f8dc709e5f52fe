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
/// version 2 each parameter was in one space, in version 3 there were no errors, and in version 4 no states of ranks.
/// All versions can be read. A checkpoint is written in the lowest version, from 2 on, that has everything it contains.
inline constexpr std::int64_t format_version = 5;
inline constexpr std::int64_t format_without_rank_states = 4;
inline constexpr std::int64_t format_without_errors = 3;
inline constexpr std::int64_t format_without_cuts = 2;
/// The line that ends the file after `text`, with the hash of `text`.
[[nodiscard]] std::string hash_line(std::string_view text);

/// Serializes spaces and errors, to send them to another rank.
[[nodiscard]] std::string text_of_spaces(Contents const& contents);
/// Appends what text_of_spaces() has written of a checkpoint of as many files. Throws SystemError.
void add_spaces_of_text(std::string const& text, Contents& contents);

}  // namespace zeroth::checkpoint
