// SPDX-License-Identifier: Apache-2.0
#include "option_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace zeroth::tools {
namespace {

std::optional<double> number(std::string const& text) {
  double value = 0;
  auto const* const end = text.data() + text.size();
  auto const [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end && std::isfinite(value) ? std::optional{value} : std::nullopt;
}

/// A number and one of `units`, of which the first that fits is taken; replaces the text by their product, which is
/// from 1 to `most`.
CLI::Validator with_unit(std::vector<std::pair<std::string_view, double>> units, double most, std::string_view allowed,
                         std::string name) {
  return {[=, units = std::move(units)](std::string& text) {
            auto const unit = std::ranges::find_if(units, [&](auto const& each) { return text.ends_with(each.first); });
            auto const value =
                unit == units.end() ? std::nullopt : number(text.substr(0, text.size() - unit->first.size()));
            if (!value || *value * unit->second < 1 || *value * unit->second > most) {
              return fmt::format("{}: allowed: {}", text, allowed);
            }
            text = std::to_string(static_cast<std::int64_t>(*value * unit->second));
            return std::string{};
          },
          std::move(name)};
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
  return with_unit({{"KiB", 0x1p10},
                    {"MiB", 0x1p20},
                    {"GiB", 0x1p30},
                    {"TiB", 0x1p40},
                    {"KB", 1e3},
                    {"MB", 1e6},
                    {"GB", 1e9},
                    {"TB", 1e12},
                    {"B", 1},
                    {"", 1}},
                   0x1p60, "a number of bytes, or one with KB, MB, GB, TB, KiB, MiB, GiB or TiB", "SIZE");
}

CLI::Validator time_in_seconds() {
  return with_unit({{"min", 60}, {"s", 1}, {"h", 3600}, {"d", 86'400}}, 1e9,
                   "a number with s, min, h or d, such as 12h, up to 10^9 s", "TIME");
}

CLI::Validator positive_up_to(double most) {
  auto const allowed = fmt::format("a number above 0, up to {:g}", most);
  return {[=](std::string& text) {
            return positive_number(text, most) ? std::string{} : fmt::format("{}: allowed: {}", text, allowed);
          },
          allowed};
}

}  // namespace zeroth::tools
