// SPDX-License-Identifier: Apache-2.0
/// Whether output goes to a terminal, and how wide that is.
#pragma once
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

/// The terminal that a descriptor of this process is connected to.
struct Terminal {
  bool is_there = false;     ///< A person sees output as it is written, and a line can be overwritten.
  bool has_colours = false;  ///< Never if NO_COLOR is set, to any value (no-color.org).
  int columns = 0;           ///< Characters per line; 0 if it is not a terminal, or unknown.
};

/// The current state; a window's width can change. Reports no terminal if TERM is "dumb", if Open MPI started the
/// process (it makes a terminal for every rank), or if a launcher started several processes on one terminal. Any
/// thread.
[[nodiscard]] ZEROTH_EXPORT Terminal terminal_at(int descriptor) noexcept;

/// Writes `line`, which must not contain a line break, over the last line of the terminal on standard output, and
/// leaves that line open. The next output of write_output(), write_error() or the library's log begins a new line below
/// it. Any thread.
ZEROTH_EXPORT void write_over(std::string_view line) noexcept;

}  // namespace zeroth
