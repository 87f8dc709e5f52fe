#include "lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

namespace zeroth::tools {
namespace {

constexpr char waiting = '.';

/// What a stream did in the time of one column.
struct Column {
  std::map<char, double> worked_us;  // by letter
  double waited_us = 0;
};

char letter_of(std::string const& what) {
  return static_cast<char>(std::toupper(static_cast<unsigned char>(what.front())));
}

char letter_of(Column const& column, double column_us) {
  double worked = 0;
  for (auto const& [letter, us] : column.worked_us) {
    worked += us;
  }
  if (worked > column_us / 5) {
    auto const less = [](auto const& a, auto const& b) { return a.second < b.second; };
    return std::max_element(column.worked_us.begin(), column.worked_us.end(), less)->first;
  }
  return column.waited_us > column_us / 2 ? waiting : ' ';
}

std::string lane_of(std::vector<Span> const& spans, std::string_view stream, double column_us, int columns) {
  std::vector<Column> lane(static_cast<std::size_t>(columns));
  auto const column_at = [&](double us) { return std::clamp(static_cast<int>(us / column_us), 0, columns - 1); };
  for (auto const& span : spans) {
    if (span.stream != stream) {
      continue;
    }
    for (int i = column_at(span.begin_us); i <= column_at(span.end_us); ++i) {
      double const begin = i * column_us;
      double const us = std::min(span.end_us, begin + column_us) - std::max(span.begin_us, begin);
      auto& column = lane[static_cast<std::size_t>(i)];
      (span.what == "wait" ? column.waited_us : column.worked_us[letter_of(span.what)]) += std::max(us, 0.0);
    }
  }
  std::string text;
  for (auto const& column : lane) {
    text += letter_of(column, column_us);
  }
  return text;
}

}  // namespace

std::string lanes_of(Timeline const& timeline, double end_us, int columns) {
  auto const spans = timeline.spans();
  auto const column_us = std::max(end_us / columns, 1e-9);
  std::string text;
  for (auto const* const stream : {"compute", "gather", "reduce"}) {
    text += fmt::format("{:>8} |{}|\n", stream, lane_of(spans, stream, column_us, columns));
  }
  return text;
}

}  // namespace zeroth::tools
