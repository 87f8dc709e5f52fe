// SPDX-License-Identifier: Apache-2.0
/// Standard input in place of a file, which "-" names.
#pragma once
#include <string>
#include <string_view>

namespace zeroth::tools {

inline constexpr std::string_view standard_input = "-";
/// What messages call it.
inline constexpr std::string_view standard_input_name = "standard input";

/// All of it, for `option`. Throws ConfigError where an option before has read it, where it cannot be read, and where
/// it has more than largest_text.
[[nodiscard]] std::string read_standard_input(std::string_view option);

/// A message about a text that has no name, Config::from_json()'s, with standard input's.
[[nodiscard]] std::string name_standard_input(std::string message);

}  // namespace zeroth::tools
