// SPDX-License-Identifier: Apache-2.0
/// Whether a person looks at what a program writes, and how much of a line they see.
#pragma once
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// What a descriptor of this process leads to.
struct Terminal {
  bool is_there = false;     ///< What is written is looked at while it comes, and a line can be written over.
  bool has_colours = false;  ///< Never where NO_COLOR is set to anything (no-color.org).
  int columns = 0;           ///< Letters of a line; 0 where it is no terminal, or does not know.
};

/// How it is now: a window's width changes. There is none where TERM is "dumb", and none for a process that Open MPI,
/// which makes a terminal for every rank, or a launcher of several processes on one terminal has started. Any thread.
[[nodiscard]] ZEROTH_EXPORT Terminal terminal_at(int descriptor) noexcept;

/// Writes `line`, which has no line break, over the last line of the terminal that standard output is, and leaves it
/// open: what write_output(), write_error() or the library's log write next begins a line of its own below it. Any
/// thread.
ZEROTH_EXPORT void write_over(std::string_view line) noexcept;

}  // namespace zeroth
