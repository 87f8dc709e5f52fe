// SPDX-License-Identifier: Apache-2.0
#include "comm/store/hearing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "comm/describe.hpp"

namespace zeroth::comm {
namespace {

/// For each rank the first of its machine, or itself: whose fault it may be.
using Places = std::vector<int>;

/// Two places, the lower one first, of which something is known, and whether they are apart.
using Pairs = std::map<std::pair<int, int>, bool>;

Places machines_of(std::vector<std::string> const& hosts) {
  Places places(hosts.size());
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    auto const first = hosts[rank].empty() ? hosts.begin() + static_cast<std::ptrdiff_t>(rank)
                                           : std::find(hosts.begin(), hosts.end(), hosts[rank]);
    places[rank] = static_cast<int>(first - hosts.begin());
  }
  return places;
}

Pairs pairs_of(std::vector<Way> const& ways) {
  Pairs pairs;
  for (auto const& way : ways) {
    bool& apart = pairs[std::minmax(way.from, way.to)];
    apart = apart || !way.open;
  }
  return pairs;
}

Pairs pairs_between(Places const& places, Pairs const& ranks) {
  Pairs pairs;
  for (auto const& [pair, apart] : ranks) {
    auto const ends =
        std::minmax(places[static_cast<std::size_t>(pair.first)], places[static_cast<std::size_t>(pair.second)]);
    if (ends.first != ends.second) {
      bool& all_apart = pairs.try_emplace(ends, true).first->second;
      all_apart = all_apart && apart;
    }
  }
  return pairs;
}

struct Score {
  int apart = 0, known = 0;
  bool has_spoken = false;
  /// Rather at fault than `other`.
  [[nodiscard]] bool exceeds(Score const& other) const noexcept {
    int const mine = apart * other.known;
    int const its = other.apart * known;
    return mine != its ? mine > its : apart != other.apart ? apart > other.apart : !has_spoken && other.has_spoken;
  }
};

std::map<int, Score> scores_of(Pairs const& pairs, Places const& places, std::vector<bool> const& has_spoken) {
  std::map<int, Score> scores;
  for (auto const& [pair, apart] : pairs) {
    for (int const place : {pair.first, pair.second}) {
      scores[place].apart += apart ? 1 : 0;
      ++scores[place].known;
    }
  }
  for (auto& [place, score] : scores) {
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
      score.has_spoken = score.has_spoken || (places[rank] == place && has_spoken[rank]);
    }
  }
  return scores;
}

/// The closed ways between `place` and the others, or one other.
Verdict verdict_on(int place, std::optional<int> other, std::vector<Way> const& ways, Places const& places) {
  std::set<int> ranks;
  std::set<int> not_heard;
  std::set<int> not_hearing;
  for (auto const& way : ways) {
    int const from = places[static_cast<std::size_t>(way.from)];
    int const to = places[static_cast<std::size_t>(way.to)];
    if (way.open || from == to) {
      continue;
    }
    if (to == place && from == other.value_or(from)) {
      ranks.insert(way.to);
      not_heard.insert(way.from);
    } else if (from == place && to == other.value_or(to)) {
      ranks.insert(way.from);
      not_hearing.insert(way.to);
    }
  }
  return {{ranks.begin(), ranks.end()}, {not_heard.begin(), not_heard.end()}, {not_hearing.begin(), not_hearing.end()}};
}

bool any_apart(Pairs const& pairs) {
  return std::any_of(pairs.begin(), pairs.end(), [](auto const& each) { return each.second; });
}

}  // namespace

Verdict judge(std::vector<Way> const& ways, std::vector<std::string> const& hosts,
              std::vector<bool> const& has_spoken) {
  auto places = machines_of(hosts);
  auto pairs = pairs_between(places, pairs_of(ways));
  if (!any_apart(pairs)) {
    std::iota(places.begin(), places.end(), 0);
    pairs = pairs_of(ways);
  }
  if (!any_apart(pairs)) {
    return {};
  }
  auto const scores = scores_of(pairs, places, has_spoken);
  auto const by_fault = [](auto const& a, auto const& b) { return b.second.exceeds(a.second); };
  auto const most = std::max_element(scores.begin(), scores.end(), by_fault);
  int const worst = most->first;
  Score const& highest = most->second;
  auto const is_at_fault = [&](int place) { return !highest.exceeds(scores.at(place)); };
  if (std::count_if(scores.begin(), scores.end(), [&](auto const& each) { return is_at_fault(each.first); }) == 1) {
    return verdict_on(worst, std::nullopt, ways, places);
  }
  for (auto const& way : ways) {
    int const from = places[static_cast<std::size_t>(way.from)];
    int const to = places[static_cast<std::size_t>(way.to)];
    if (!way.open && from != to && is_at_fault(from) && is_at_fault(to) && pairs.at(std::minmax(from, to))) {
      return verdict_on(to, from, ways, places);
    }
  }
  return verdict_on(worst, std::nullopt, ways, places);
}

// ---- in words -------------------------------------------------------------------------------------------------------

std::string name_ranks(std::vector<int> const& ranks, std::vector<std::string> const& hosts) {
  auto const& host = hosts[static_cast<std::size_t>(ranks.front())];
  return describe_ranks(ranks) + (host.empty() ? "" : " on " + host);
}

std::string describe(Verdict const& verdict, std::vector<std::string> const& hosts) {
  auto const& [ranks, not_heard, not_hearing] = verdict;
  bool const one = ranks.size() == 1;
  auto const who = name_ranks(ranks, hosts);
  auto const others = [&](std::vector<int> const& list) {
    return list.size() == 1 ? name_ranks(list, hosts) : describe_ranks(list);
  };
  if (not_heard == not_hearing) {
    return fmt::format("{} and {} do not hear each other", who, others(not_heard));
  }
  std::string words = who;
  if (!not_heard.empty()) {
    words += not_heard.size() == 1 ? fmt::format(" {} not hear {}", one ? "does" : "do", others(not_heard))
                                   : fmt::format(" {} none of {}", one ? "hears" : "hear", others(not_heard));
  }
  if (!not_hearing.empty()) {
    words += fmt::format("{} {} {} {}", not_heard.empty() ? "" : " and", one ? "is" : "are",
                         not_hearing.size() == 1 ? "not heard by" : "heard by none of", others(not_hearing));
  }
  return words;
}

}  // namespace zeroth::comm
