// SPDX-License-Identifier: Apache-2.0
#include "endings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

namespace zeroth::tools {
namespace {

constexpr int lines_of_log = 12;

std::string words_of(Ended const& how) {
  return how.signal == 0 ? fmt::format("exit status {}", how.status)
                         : fmt::format("signal {} ({})", how.signal, ::strsignal(how.signal));
}

/// "rank 3", or "ranks 0, 2 to 7"; places are sorted.
std::string ranks_text(std::vector<std::size_t> const& places) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0, end = 0; begin < places.size(); begin = end) {
    end = begin + 1;
    while (end < places.size() && places[end] == places[end - 1] + 1) {
      ++end;
    }
    runs.push_back(end - begin == 1 ? fmt::format("{}", places[begin])
                                    : fmt::format("{} to {}", places[begin], places[end - 1]));
  }
  return fmt::format("rank{} {}", places.size() == 1 ? "" : "s", fmt::join(runs, ", "));
}

/// A line for each way in which processes other than `first` ended.
std::string others_text(Processes const& processes, std::size_t first) {
  std::map<std::string, std::vector<std::size_t>> places_of;
  for (auto const& [place, how] : processes.ended()) {
    if (place != first) {
      places_of[words_of(how)].push_back(place);
    }
  }
  std::string text;
  for (auto& [words, places] : places_of) {
    std::ranges::sort(places);
    text += fmt::format("zeroth run: {}: {}\n", ranks_text(places), words);
  }
  return text;
}

std::string log_text(RankLogs const& logs, std::size_t place) {
  if (!logs.are_there()) {
    return "\n";
  }
  auto text = fmt::format("; {} ends with:\n", logs.file(place).string());
  auto const end = logs.end_of(place, lines_of_log);
  for (std::size_t begin = 0; begin < end.size();) {
    auto const behind = end.find('\n', begin) + 1;
    text += "  " + end.substr(begin, behind - begin);
    begin = behind;
  }
  return end.empty() ? fmt::format("; {} is empty\n", logs.file(place).string()) : text;
}

}  // namespace

Outcome outcome_of(Processes const& processes, bool are_ranks, RankLogs const& logs) {
  auto const& ended = processes.ended();
  auto const first = std::ranges::find_if(ended, [](auto const& each) { return !each.second.is_well(); });
  // `wrong` states the rank's own fault, while other ranks may have ended first as a consequence.
  auto decides = std::ranges::find_if(
      ended, [](auto const& each) { return each.second.signal == 0 && each.second.status == ExitCode::wrong; });
  if (decides == ended.end()) {
    decides = first;
  }
  bool const has_failed = decides != ended.end();
  if (!has_failed) {
    decides = std::ranges::max_element(ended, {}, [](auto const& each) { return each.second.status; });
  }
  auto const& [place, how] = *decides;
  auto const words = words_of(how);
  Outcome outcome{how.exit_code(), are_ranks ? fmt::format("rank {}: {}", place, words) : words, {}};
  if (has_failed && (are_ranks || logs.are_there())) {
    auto const who =
        are_ranks ? fmt::format("rank {} {}", place, decides == first ? "failed first" : "is wrong") : "failed";
    outcome.account =
        others_text(processes, place) + fmt::format("zeroth run: {}: {}{}", who, words, log_text(logs, place));
  }
  return outcome;
}

}  // namespace zeroth::tools
