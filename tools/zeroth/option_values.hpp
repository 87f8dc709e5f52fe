// SPDX-License-Identifier: Apache-2.0
/// Parsing and validation of option values; errors say what is allowed.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace zeroth::tools {

inline constexpr int largest_world = 1 << 20;

/// A whole number from `least` to `most`, also in the form 7.5e9; nullopt if `text` is none.
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string const& text, std::int64_t least, std::int64_t most);
/// A number above 0 and at most `most`; nullopt if `text` is none.
[[nodiscard]] std::optional<double> positive_number(std::string const& text, double most);
/// Validators for these two; their errors name the allowed values.
[[nodiscard]] CLI::Validator whole_from(std::int64_t least, std::int64_t most);
[[nodiscard]] CLI::Validator positive_up_to(double most);
/// A size of at least one byte, as a number of bytes or with a unit: 5GB (10^9 bytes each), 512MiB (2^20). Replaces the
/// text by the number of bytes.
[[nodiscard]] CLI::Validator size_in_bytes();
/// A time of at least one second, with a unit: 90s, 30min, 12h, 7d. Replaces the text by the number of seconds.
[[nodiscard]] CLI::Validator time_in_seconds();

}  // namespace zeroth::tools
