// SPDX-License-Identifier: Apache-2.0
/// The medium for text: a terminal of some width, with or without colours, or anything else.
#pragma once
#include <string>
#include <string_view>

#include <zeroth/tool/core/terminal.hpp>

namespace zeroth::tools {

struct Paper {
  int columns = 0;  ///< Line width; 0: unlimited.
  bool has_colours = false;

  Paper() = default;
  explicit Paper(Terminal const& terminal) noexcept : columns{terminal.columns}, has_colours{terminal.has_colours} {}

  [[nodiscard]] std::string good(std::string_view words) const { return in_colour(words, "32"); }
  [[nodiscard]] std::string bad(std::string_view words) const { return in_colour(words, "31"); }
  [[nodiscard]] std::string open(std::string_view words) const { return in_colour(words, "33"); }  ///< Neither.

 private:
  [[nodiscard]] std::string in_colour(std::string_view words, std::string_view code) const;
};

/// Wraps the lines of `text` to the paper's width; a word that is wider stays whole. Continuation lines start at the
/// line's second column if there is room, otherwise two blanks further in than the line.
[[nodiscard]] std::string fold(std::string_view text, Paper const& paper);

}  // namespace zeroth::tools
