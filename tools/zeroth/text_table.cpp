// SPDX-License-Identifier: Apache-2.0
#include "text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zeroth::tools {

std::string aligned(std::vector<Row> const& rows) {
  std::vector<std::size_t> widths;
  for (auto const& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row.size() == 2 && i == 1 ? 0 : row[i].size());
    }
  }
  std::string text;
  for (auto const& row : rows) {
    text += fmt::format("{:<{}}", row.front(), widths.front());
    for (std::size_t i = 1; i < row.size(); ++i) {
      text += fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace zeroth::tools
