// SPDX-License-Identifier: Apache-2.0
#include "option_values.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

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
  constexpr std::array<std::pair<std::string_view, double>, 9> units{{{"KiB", 0x1p10},
                                                                      {"MiB", 0x1p20},
                                                                      {"GiB", 0x1p30},
                                                                      {"TiB", 0x1p40},
                                                                      {"KB", 1e3},
                                                                      {"MB", 1e6},
                                                                      {"GB", 1e9},
                                                                      {"TB", 1e12},
                                                                      {"B", 1}}};
  constexpr double most = 0x1p60;
  return {[=](std::string& text) {
            auto digits = text;
            double factor = 1;
            for (auto const& [unit, bytes] : units) {
              if (digits.ends_with(unit)) {
                digits.resize(digits.size() - unit.size());
                factor = bytes;
                break;
              }
            }
            auto const value = number(digits);
            if (!value || *value * factor < 1 || *value * factor > most) {
              return fmt::format("{}: allowed: a number of bytes, or one with KB, MB, GB, TB, KiB, MiB, GiB or TiB",
                                 text);
            }
            text = std::to_string(static_cast<std::int64_t>(*value * factor));
            return std::string{};
          },
          "SIZE"};
}

CLI::Validator positive_up_to(double most) {
  auto const allowed = fmt::format("a number above 0, up to {:g}", most);
  return {[=](std::string& text) {
            return positive_number(text, most) ? std::string{} : fmt::format("{}: allowed: {}", text, allowed);
          },
          allowed};
}

}  // namespace zeroth::tools
