// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/config/nearest.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace zeroth::config {
namespace {

constexpr std::size_t longest_name = 64;  // a longer name is near to nothing, and not worth the time to find out

constexpr char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}
constexpr bool same_letter(char a, char b) { return lower(a) == lower(b); }

/// The edit distance if it is below `too_far`, otherwise any number that is not.
std::size_t distance_below(std::size_t too_far, std::string_view from, std::string_view to) {
  // Row i of the table: distances between the first i and the first j characters. Swaps look two rows back.
  std::vector<std::size_t> two_back(to.size() + 1);
  std::vector<std::size_t> back(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::size_t least_back = 0;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    two_back.swap(back);
    back.swap(row);
    row[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      std::size_t const replaced = back[j - 1] + (same_letter(from[i - 1], to[j - 1]) ? 0 : 1);
      row[j] = std::min({replaced, back[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && same_letter(from[i - 1], to[j - 2]) && same_letter(from[i - 2], to[j - 1])) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
      least = std::min(least, row[j]);
    }
    if (std::min(least, least_back) >= too_far) {
      return too_far;  // later rows hold nothing below both of these
    }
    least_back = least;
  }
  return row[to.size()];
}

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  return distance_below(std::numeric_limits<std::size_t>::max(), from, to);
}

std::string_view nearest(std::string_view name, std::vector<std::string_view> const& names) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(1, name.size() / 4) + 1;  // a distance of at least this is too far
  if (name.size() > longest_name) {
    return best;
  }
  for (auto const candidate : names) {
    auto const [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter >= least) {
      continue;  // not nearer
    }
    if (auto const distance = distance_below(least, name, candidate); distance < least) {
      least = distance;
      best = candidate;
    }
  }
  if (best.empty() && name.size() >= 3) {  // perhaps an end is missing or superfluous: "timeout"
    auto const begins = std::ranges::find_if(
        names, [&](auto candidate) { return candidate.starts_with(name) || name.starts_with(candidate); });
    best = begins == names.end() ? best : *begins;
  }
  return best;
}

}  // namespace zeroth::config
