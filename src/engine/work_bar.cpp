// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/work_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "zeroth/tool/core/standard_streams.hpp"
#include "zeroth/tool/core/terminal.hpp"

namespace zeroth {
namespace {

constexpr std::string_view over_the_line = "\r\x1b[K";  // moves to the line's start and clears it
constexpr std::chrono::milliseconds between_drawings{200};
constexpr int columns_where_unknown = 80;

}  // namespace

std::string work_text(std::string const& what, std::int64_t done, std::int64_t all, int columns) {
  constexpr int least_bar = 10, most_bar = 60, beside_bar = 4;
  auto const part = all > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(all)) : 1.0;
  constexpr std::int64_t gibibyte = std::int64_t{1} << 30U, mebibyte = std::int64_t{1} << 20U, kibibyte = 1 << 10U;
  auto const unit = all >= gibibyte ? gibibyte : all >= mebibyte ? mebibyte : kibibyte;
  auto const in_units = [unit](std::int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(unit); };
  auto const text =
      fmt::format("{}  {:.0f} %  {:.2f} of {:.2f} {}", what, std::floor(100 * part), in_units(done), in_units(all),
                  unit == gibibyte   ? "GiB"
                  : unit == mebibyte ? "MiB"
                                     : "KiB");
  auto const room = std::min(most_bar, columns - static_cast<int>(text.size()) - beside_bar);
  if (room < least_bar) {
    return text.substr(0, static_cast<std::size_t>(columns));
  }
  auto const full = static_cast<int>(part * room);
  return fmt::format("{}  [{:#<{}}{:.<{}}]", text, "", full, "", room - full);
}

WorkBar::WorkBar(std::string what, std::int64_t all, std::chrono::milliseconds patience)
    : what_{std::move(what)}, all_{all}, next_{Clock::now() + patience} {}

WorkBar::~WorkBar() {
  if (is_drawn_) {
    write_error(over_the_line);
  }
}

void WorkBar::set(std::int64_t done, std::int64_t all) {
  done_ = done;
  all_ = all;
  auto const now = Clock::now();
  if (now < next_) {
    return;
  }
  next_ = now + between_drawings;
  auto const terminal = terminal_at(STDERR_FILENO);
  if (terminal.is_there) {
    auto const columns = terminal.columns > 0 ? terminal.columns : columns_where_unknown;
    write_error(fmt::format("{}{}", over_the_line, work_text(what_, done_, all_, std::max(columns - 1, 1))));
    is_drawn_ = true;
  }
}

}  // namespace zeroth
