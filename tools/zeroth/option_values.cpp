// SPDX-License-Identifier: Apache-2.0
#include "option_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include <zeroth/tool/core/duration.hpp>

namespace zeroth::tools {
namespace {

std::optional<double> number(std::string const& text) {
  double value = 0;
  auto const* const end = text.data() + text.size();
  auto const [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end && std::isfinite(value) ? std::optional{value} : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string const& text, std::int64_t least, std::int64_t most) {
  auto const value = number(text);
  bool const whole = value && std::trunc(*value) == *value && *value >= static_cast<double>(least) &&
                     *value <= static_cast<double>(most);
  return whole ? std::optional{static_cast<std::int64_t>(*value)} : std::nullopt;
}

std::optional<double> positive_number(std::string const& text, double most) {
  auto const value = number(text);
  return value && *value > 0 && *value <= most ? value : std::nullopt;
}

CLI::Validator whole_from(std::int64_t least, std::int64_t most) {
  auto const allowed = fmt::format("a whole number from {} to {}", least, most);
  return {[=](std::string& text) {
            auto const value = whole_number(text, least, most);
            if (!value) {
              return fmt::format("{}: allowed: {}", text, allowed);
            }
            text = std::to_string(*value);  // CLI11 does not parse 7.5e9 as a whole number
            return std::string{};
          },
          allowed};
}

CLI::Validator size_in_bytes() {
  return {[](std::string& text) {
            static constexpr std::pair<std::string_view, double> units[] = {
                {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},
                {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"B", 1},        {"", 1}};
            auto const& [unit, bytes] =
                *std::ranges::find_if(units, [&](auto const& each) { return text.ends_with(each.first); });
            auto const value = number(text.substr(0, text.size() - unit.size()));
            if (!value || *value * bytes < 1 || *value * bytes > 0x1p60) {
              return fmt::format("{}: allowed: a number of bytes, or one with KB, MB, GB, TB, KiB, MiB, GiB or TiB",
                                 text);
            }
            text = std::to_string(static_cast<std::int64_t>(*value * bytes));
            return std::string{};
          },
          "SIZE"};
}

CLI::Validator time_in_seconds() {
  return {[](std::string& text) {
            auto const seconds = seconds_in(text);
            if (!seconds || *seconds < 1) {
              return fmt::format("{}: allowed: a number with s, min, h or d, such as 12h, up to 10^9 s", text);
            }
            text = std::to_string(static_cast<std::int64_t>(*seconds));
            return std::string{};
          },
          "TIME"};
}

CLI::Validator positive_up_to(double most) {
  auto const allowed = fmt::format("a number above 0, up to {:g}", most);
  return {[=](std::string& text) {
            return positive_number(text, most) ? std::string{} : fmt::format("{}: allowed: {}", text, allowed);
          },
          allowed};
}

}  // namespace zeroth::tools
