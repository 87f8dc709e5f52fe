// SPDX-License-Identifier: Apache-2.0
#include "paper.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zeroth::tools {
namespace {

constexpr auto npos = std::string_view::npos;

/// Width without escape sequences for colours.
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      at = std::min(text.find('m', at), text.size());
    } else {
      width += (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U ? 1U : 0U;  // skip continuation bytes of UTF-8
    }
  }
  return width;
}

std::size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// The start of a second column, after two blanks or more; npos if there is none.
std::size_t second_column(std::string_view line) {
  auto const gap = line.find("  ", indent_of(line));
  return gap == npos ? npos : line.find_first_not_of(' ', gap);
}

/// Replaces runs of blanks by two blanks, and sets the indentation to `indent`.
std::string narrowed(std::string_view line, std::size_t indent) {
  std::string text(indent, ' ');
  for (auto const letter : line.substr(indent_of(line))) {
    if (letter != ' ' || !text.ends_with("  ")) {
      text += letter;
    }
  }
  return text;
}

/// Breaks words, each with the blanks before it, into lines of `columns`.
std::string in_lines(std::string_view line, std::size_t hang, std::size_t columns) {
  std::string text;
  std::size_t column = 0;
  bool is_first = true;
  for (std::size_t at = 0; at < line.size();) {
    auto const begin = std::min(line.find_first_not_of(' ', at), line.size());
    auto const end = std::min(line.find(' ', begin), line.size());
    auto const word = line.substr(begin, end - begin);
    if (!is_first && column + (begin - at) + width_of(word) > columns) {
      text += fmt::format("\n{:{}}{}", "", hang, word);
      column = hang + width_of(word);
    } else {
      text += line.substr(at, end - at);
      column += begin - at + width_of(word);
    }
    is_first = false;
    at = end;
  }
  return text;
}

std::string folded_line(std::string_view line, std::size_t columns) {
  if (width_of(line) <= columns) {
    return std::string{line};
  }
  auto const column = second_column(line);
  if (column != npos && column <= columns / 2) {
    return in_lines(line, column, columns);
  }
  constexpr std::size_t where_that_is_too_far = 4;
  auto const indent = indent_of(line) + 2 <= columns / 2 ? indent_of(line) : where_that_is_too_far;
  return in_lines(narrowed(line, indent), indent + 2, columns);
}

}  // namespace

std::string Paper::in_colour(std::string_view words, std::string_view code) const {
  return has_colours ? fmt::format("\x1b[{}m{}\x1b[0m", code, words) : std::string{words};
}

std::string fold(std::string_view text, Paper const& paper) {
  if (paper.columns <= 0) {
    return std::string{text};
  }
  std::string folded;
  while (!text.empty()) {
    auto const end = text.find('\n');
    folded += folded_line(text.substr(0, end), static_cast<std::size_t>(paper.columns));
    if (end == npos) {
      break;
    }
    folded += '\n';
    text.remove_prefix(end + 1);
  }
  return folded;
}

}  // namespace zeroth::tools
