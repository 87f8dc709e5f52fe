// SPDX-License-Identifier: Apache-2.0
/// Times on a command line.
#pragma once
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace zeroth {

/// The seconds that a text such as "30s", "10min", "2h" or "1d" stands for; nullopt unless it is such a time, above 0
/// and up to 10^9 s.
[[nodiscard]] inline std::optional<double> seconds_in(std::string_view text) noexcept {
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  auto const unit = text.substr(static_cast<std::size_t>(end - text.data()));
  double const factor = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86'400 : 0;
  double const seconds = value * factor;
  return error == std::errc{} && seconds > 0 && seconds <= 1e9 ? std::optional{seconds} : std::nullopt;
}

}  // namespace zeroth
