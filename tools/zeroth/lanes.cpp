// SPDX-License-Identifier: Apache-2.0
#include "lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace zeroth::tools {
namespace {

constexpr char waiting = '.', idle = ' ';

using Shares = std::map<char, double>;  // by letter: fraction of a column's time

char letter_of(std::string const& what) {
  if (what == "backward_inputs" || what == "backward_weights") {
    return what == "backward_inputs" ? 'I' : 'W';
  }
  return what == "wait" ? waiting : static_cast<char>(std::toupper(static_cast<unsigned char>(what.front())));
}

/// Waits within another span do not count as part of it: compute waits for tensor ranks in the middle of a unit.
std::vector<Shares> shares_of(std::vector<Span> const& spans, std::string_view stream, double column_us, int columns) {
  std::vector<Shares> lane(static_cast<std::size_t>(columns), Shares{{idle, 1}});
  auto const column_at = [&](double us) { return std::clamp(static_cast<int>(us / column_us), 0, columns - 1); };
  auto const add = [&](char letter, double begin_us, double end_us) {
    for (int i = column_at(begin_us); i <= column_at(end_us); ++i) {
      double const begin = i * column_us;
      double const us = std::min(end_us, begin + column_us) - std::max(begin_us, begin);
      auto& shares = lane[static_cast<std::size_t>(i)];
      shares[letter] += std::max(us, 0.0) / column_us;
      shares[idle] -= std::max(us, 0.0) / column_us;
    }
  };
  std::vector<Span> waits;  // in order, as a stream has them
  std::ranges::copy_if(spans, std::back_inserter(waits),
                       [&](Span const& span) { return span.stream == stream && letter_of(span.what) == waiting; });
  for (auto const& span : spans) {
    if (span.stream != stream) {
      continue;
    }
    double at_us = span.begin_us;
    if (letter_of(span.what) != waiting) {
      for (auto wait = std::ranges::lower_bound(waits, span.begin_us, {}, &Span::begin_us);
           wait != waits.end() && wait->end_us <= span.end_us; ++wait) {
        if (wait->begin_us > at_us) {
          add(letter_of(span.what), at_us, wait->begin_us);
        }
        at_us = wait->end_us;
      }
    }
    if (span.end_us > at_us || span.begin_us == span.end_us) {
      add(letter_of(span.what), at_us, span.end_us);
    }
  }
  return lane;
}

/// Draws lanes by error diffusion: of the letters with a share of a column, picks the one with the largest accumulated
/// share. Each letter then occurs in proportion to its time, even if it never has most of a column.
std::string drawn(std::vector<Shares> const& lane) {
  std::string text;
  Shares owed;
  for (auto const& shares : lane) {
    std::erase_if(owed, [&](auto const& each) { return !shares.contains(each.first); });
    for (auto const& [letter, share] : shares) {
      owed[letter] += share;
    }
    auto best = owed.rbegin();  // on ties: work before waiting before nothing
    for (auto each = owed.rbegin(); each != owed.rend(); ++each) {
      best = each->second > best->second + 1e-6 ? each : best;
    }
    text += best->first;
    best->second -= 1;
  }
  return text;
}

}  // namespace

std::string lane_of(Timeline const& timeline, std::string_view stream, std::string_view name, double end_us,
                    int columns) {
  auto const column_us = std::max(end_us / columns, 1e-9);
  return fmt::format("{:>8} |{}|\n", name, drawn(shares_of(timeline.spans(), stream, column_us, columns)));
}

std::string lanes_of(Timeline const& timeline, double end_us, int columns) {
  auto const spans = timeline.spans();
  std::string text;
  constexpr std::pair<char const*, bool> streams[] = {{"compute", true}, {"gather", true}, {"reduce", true},
                                                      {"tensor", false}, {"read", false},  {"update", false},
                                                      {"write", false}};
  for (auto const& [stream, always] : streams) {
    if (!always && std::ranges::find(spans, stream, &Span::stream) == spans.end()) {
      continue;
    }
    text += lane_of(timeline, stream, stream, end_us, columns);
  }
  return text;
}

}  // namespace zeroth::tools
