// SPDX-License-Identifier: Apache-2.0
#include "comm/store/timeout_reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/describe.hpp"

namespace zeroth::comm {

std::string name_ranks(std::vector<int> const& ranks, std::vector<std::string> const& hosts) {
  auto const host_of = [&hosts](int rank) -> std::string const& { return hosts[static_cast<std::size_t>(rank)]; };
  auto const& host = host_of(ranks.front());
  bool const on_one =
      !host.empty() && std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return host_of(rank) == host; });
  return describe_ranks(ranks) + (on_one ? " on " + host : "");
}

std::string describe_unheard(std::vector<int> const& by, std::vector<int> const& ranks,
                             std::vector<std::string> const& hosts) {
  return fmt::format("{} {} nothing from {}", name_ranks(by, hosts), by.size() == 1 ? "receives" : "receive",
                     name_ranks(ranks, hosts));
}

void TimeoutReports::add(int rank, TimeoutReport report) {
  auto const [place, is_new] = reports_.try_emplace(rank, std::move(report));
  if (is_new) {
    order_.push_back(rank);
    return;
  }
  auto& contacts = place->second.contacts;  // from a wait on another communicator
  std::transform(contacts.begin(), contacts.end(), report.contacts.begin(), contacts.begin(),
                 [](Contact before, Contact now) { return before == Contact::none ? now : before; });
}

/// Counts the ranks that rank `rank` waits for and that reported a timeout themselves.
int TimeoutReports::waiting_themselves(int rank) const {
  auto const& contacts = reports_.at(rank).contacts;
  return static_cast<int>(std::count_if(order_.begin(), order_.end(), [&](int other) {
    return contacts[static_cast<std::size_t>(other)] == Contact::late;
  }));
}

/// Groups ranks by the set of ranks that receive nothing from them. The largest such set comes first.
std::vector<TimeoutReports::Unheard> TimeoutReports::unheard() const {
  std::vector<Unheard> all;
  for (int rank = 0; rank < world_; ++rank) {
    std::vector<int> by;
    for (auto const& [other, report] : reports_) {
      if (report.contacts[static_cast<std::size_t>(rank)] == Contact::silent) {
        by.push_back(other);
      }
    }
    auto const same = std::find_if(all.begin(), all.end(), [&by](Unheard const& each) { return each.by == by; });
    if (same != all.end()) {
      same->ranks.push_back(rank);
    } else if (!by.empty()) {
      all.push_back({std::move(by), {rank}});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](Unheard const& a, Unheard const& b) { return a.by.size() > b.by.size(); });
  return all;
}

JobFailure TimeoutReports::find(std::vector<std::string> const& hosts) const {
  auto const list = unheard();
  if (list.empty()) {
    auto const distance = [this](int rank) { return std::pair{waiting_themselves(rank), rank != first_}; };
    int const nearest =
        *std::min_element(order_.begin(), order_.end(), [&](int a, int b) { return distance(a) < distance(b); });
    return {nearest, reports_.at(nearest).words};
  }
  std::string words;
  for (auto const& each : list) {
    words += describe_unheard(each.by, each.ranks, hosts) + (&each == &list.back() ? ": " : "; ");
  }
  return {list.front().ranks.front(), words + reports_.at(list.front().by.front()).words};
}

}  // namespace zeroth::comm
