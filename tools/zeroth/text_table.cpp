// SPDX-License-Identifier: Apache-2.0
#include "text_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zeroth::tools {
namespace {

constexpr std::size_t gap_of_columns = 2;

std::vector<std::size_t> widths_of(std::vector<Row> const& rows) {
  std::vector<std::size_t> widths;
  for (auto const& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row.size() == 2 && i == 1 ? 0 : row[i].size());
    }
  }
  return widths;
}

/// One past the last column, from `begin` on, that fits next to the first one: at least one column.
std::size_t end_of_part(std::vector<std::size_t> const& widths, std::size_t begin, int columns) {
  if (columns <= 0) {
    return widths.size();
  }
  auto end = begin;
  auto width = widths.front();
  while (end < widths.size() &&
         (end == begin || width + gap_of_columns + widths[end] <= static_cast<std::size_t>(columns))) {
    width += gap_of_columns + widths[end++];
  }
  return end;
}

}  // namespace

std::string aligned(std::vector<Row> const& rows, Paper const& paper) {
  auto const widths = widths_of(rows);
  std::string text;
  if (widths.empty()) {
    return text;
  }
  std::size_t begin = 1;
  do {
    auto const end = end_of_part(widths, begin, paper.columns);
    text += begin > 1 ? "\n" : "";
    for (auto const& row : rows) {
      if (begin > 1 && row.size() <= begin) {
        continue;  // a row of two cells was printed in the first part
      }
      text += fmt::format("{:<{}}", row.front(), widths.front());
      for (auto i = begin; i < std::min(end, row.size()); ++i) {
        text += fmt::format("{:{}}{:>{}}", "", gap_of_columns, row[i], widths[i]);
      }
      text += "\n";
    }
    begin = end;
  } while (begin < widths.size());
  return text;
}

}  // namespace zeroth::tools
