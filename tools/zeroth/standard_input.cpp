// SPDX-License-Identifier: Apache-2.0
#include "standard_input.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/input_file.hpp>

namespace zeroth::tools {

std::string read_standard_input(std::string_view option) {
  static std::string read_for;
  if (!read_for.empty()) {
    throw ConfigError{
        fmt::format("{} -: standard input was read for {} already; allowed: one of them", option, read_for)};
  }
  read_for = option;
  std::string text;
  std::array<char, 1 << 16> piece{};
  while (true) {
    auto const bytes = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (bytes == 0) {
      return text;
    }
    if (bytes > 0) {
      text.append(piece.data(), static_cast<std::size_t>(bytes));
    } else if (errno != EINTR) {
      throw ConfigError{
          fmt::format("{} -: standard input cannot be read: {}", option, std::generic_category().message(errno))};
    }
    if (static_cast<std::int64_t>(text.size()) > largest_text) {
      throw ConfigError{
          fmt::format("{} -: standard input has more than {} bytes, the limit for text files", option, largest_text)};
    }
  }
}

std::string name_standard_input(std::string message) {
  constexpr std::string_view unnamed = "<text>";
  return message.starts_with(unnamed) ? message.replace(0, unnamed.size(), standard_input_name) : message;
}

}  // namespace zeroth::tools
