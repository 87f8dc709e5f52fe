// SPDX-License-Identifier: Apache-2.0
/// What text is written on: a terminal of some width, with colours or without, or anything else.
#pragma once
#include <string>
#include <string_view>

#include <zeroth/tool/core/terminal.hpp>

namespace zeroth::tools {

struct Paper {
  int columns = 0;  ///< Of a line; 0: lines are as long as they are.
  bool has_colours = false;

  Paper() = default;
  explicit Paper(Terminal const& terminal) noexcept : columns{terminal.columns}, has_colours{terminal.has_colours} {}

  [[nodiscard]] std::string good(std::string_view words) const { return in_colour(words, "32"); }
  [[nodiscard]] std::string bad(std::string_view words) const { return in_colour(words, "31"); }
  [[nodiscard]] std::string open(std::string_view words) const { return in_colour(words, "33"); }  ///< Neither.

 private:
  [[nodiscard]] std::string in_colour(std::string_view words, std::string_view code) const;
};

/// `text` with no line wider than the paper, but for words that are. What a line is continued with stands below its
/// second column, where that leaves room, and else two blanks further in than the line.
[[nodiscard]] std::string fold(std::string_view text, Paper const& paper);

}  // namespace zeroth::tools
