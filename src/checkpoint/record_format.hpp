// SPDX-License-Identifier: Apache-2.0
/// What the writer and the reader of checkpoint.json have to agree on.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace zeroth::checkpoint {

/// Another one for every change that a reader of before would misread.
inline constexpr std::int64_t format_version = 1;
/// What follows `text`, all that comes before it, to the end of the file.
[[nodiscard]] std::string hash_line(std::string_view text);

}  // namespace zeroth::checkpoint
