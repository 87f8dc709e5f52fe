// SPDX-License-Identifier: Apache-2.0
#include "option_values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

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
            text = std::to_string(*value);  // what CLI11 reads: it does not know 7.5e9 as a whole number
            return std::string{};
          },
          allowed};
}

CLI::Validator positive_up_to(double most) {
  auto const allowed = fmt::format("a number above 0, up to {:g}", most);
  return {[=](std::string& text) {
            return positive_number(text, most) ? std::string{} : fmt::format("{}: allowed: {}", text, allowed);
          },
          allowed};
}

}  // namespace zeroth::tools
