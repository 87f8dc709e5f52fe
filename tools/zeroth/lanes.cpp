#include "lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>
#include <vector>

namespace zeroth::tools {
namespace {

char letter_of(std::string const& what) {
  return what == "wait" ? '.' : static_cast<char>(std::toupper(static_cast<unsigned char>(what.front())));
}

/// What took most of each column; a blank where nothing did.
std::string lane_of(std::vector<Span> const& spans, std::string_view stream, double begin_us, double column_us,
                    int columns) {
  std::vector<std::map<char, double>> taken(static_cast<std::size_t>(columns));
  for (auto const& span : spans) {
    if (span.stream != stream) {
      continue;
    }
    auto const column_at = [&](double us) {
      return std::clamp(static_cast<int>((us - begin_us) / column_us), 0, columns - 1);
    };
    for (int column = column_at(span.begin_us); column <= column_at(span.end_us); ++column) {
      double const from = begin_us + column * column_us;
      double const part = std::min(span.end_us, from + column_us) - std::max(span.begin_us, from);
      taken[static_cast<std::size_t>(column)][letter_of(span.what)] += std::max(part, 0.0);
    }
  }
  std::string lane;
  for (auto& letters : taken) {
    double const waited = std::exchange(letters['.'], 0);
    double worked = 0;
    for (auto const& [letter, us] : letters) {
      worked += us;
    }
    auto const most = std::max_element(letters.begin(), letters.end(),
                                       [](auto const& a, auto const& b) { return a.second < b.second; });
    char const idle = waited > column_us / 2 ? '.' : ' ';
    lane += worked > column_us / 5 ? most->first : idle;
  }
  return lane;
}

}  // namespace

std::string lanes_of(Timeline const& timeline, int columns) {
  auto const spans = timeline.spans();
  if (spans.empty()) {
    return {};
  }
  double const begin = spans.front().begin_us;
  double end = begin;
  for (auto const& span : spans) {
    end = std::max(end, span.end_us);
  }
  std::string text;
  for (auto const* const stream : {"compute", "gather", "reduce"}) {
    text += fmt::format("{:>8} |{}|\n", stream,
                        lane_of(spans, stream, begin, std::max((end - begin) / columns, 1e-9), columns));
  }
  return text;
}

}  // namespace zeroth::tools
