// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/core/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "core/open_line.hpp"

namespace zeroth {
namespace {

std::string_view variable(char const* name) noexcept {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

/// Several processes on one terminal would overwrite each other's lines.
bool is_one_of_several() noexcept {
  for (char const* const of_mpi : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (!variable(of_mpi).empty()) {
      return true;
    }
  }
  auto const world = variable("WORLD_SIZE");
  return !variable("RANK").empty() && !world.empty() && world != "1";
}

}  // namespace

Terminal terminal_at(int descriptor) noexcept {
  Terminal terminal;
  terminal.is_there = ::isatty(descriptor) == 1 && variable("TERM") != "dumb" && !is_one_of_several();
  if (!terminal.is_there) {
    return terminal;
  }
  terminal.has_colours = variable("NO_COLOR").empty();
  winsize size{};
  terminal.columns = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  return terminal;
}

void write_over(std::string_view line) noexcept {
  constexpr std::string_view over = "\r\x1b[K";  // to the start of the line, and clear it
  try {
    std::string text{over};
    text += line;
    line_is_open = true;
    write_behind_line(text);
    line_is_open =
        true;  // again, as another thread may have cleared it: at worst an extra empty line, never two joined lines
  } catch (std::exception const&) {  // no memory for a line that is soon replaced
  }
}

}  // namespace zeroth
