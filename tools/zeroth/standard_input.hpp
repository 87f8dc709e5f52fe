// SPDX-License-Identifier: Apache-2.0
/// Reads standard input in place of a file named "-".
#pragma once
#include <string>
#include <string_view>

namespace zeroth::tools {

inline constexpr std::string_view standard_input = "-";
/// Its name in messages.
inline constexpr std::string_view standard_input_name = "standard input";

/// Reads all of it, for `option`. Throws ConfigError if an earlier option has read it, if it cannot be read, or if it
/// is longer than largest_text.
[[nodiscard]] std::string read_standard_input(std::string_view option);

/// Puts the name of standard input into a message of Config::from_json(), which has no file name.
[[nodiscard]] std::string name_standard_input(std::string message);

}  // namespace zeroth::tools
