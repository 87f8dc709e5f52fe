// SPDX-License-Identifier: Apache-2.0
#include "comm/store/inquest.hpp"

#include <algorithm>
#include <utility>

#include "comm/store/hearing.hpp"

namespace zeroth::comm {
namespace {

/// Of what `rank` heard, or did not hear, of `other`.
void add_ways(std::vector<Way>& ways, int rank, int other, Contact contact) {
  switch (contact) {
    case Contact::none: return;
    case Contact::here:
    case Contact::late:
      ways.push_back({rank, other, true});
      ways.push_back({other, rank, true});
      return;
    case Contact::silent: ways.push_back({other, rank, false}); return;
    case Contact::asking:
      ways.push_back({rank, other, false});
      ways.push_back({other, rank, true});
      return;
  }
}

}  // namespace

void Inquest::add(int rank, Complaint complaint) {
  auto const [place, is_new] = complaints_.try_emplace(rank, std::move(complaint));
  if (is_new) {
    order_.push_back(rank);
    return;
  }
  auto& contacts = place->second.contacts;  // of a wait on another communicator
  std::transform(contacts.begin(), contacts.end(), complaint.contacts.begin(), contacts.begin(),
                 [](Contact before, Contact now) { return before == Contact::none ? now : before; });
}

/// Of those that have not come to where `rank` waits: how many complain too.
int Inquest::waiting_themselves(int rank) const {
  auto const& contacts = complaints_.at(rank).contacts;
  return static_cast<int>(std::count_if(order_.begin(), order_.end(), [&](int other) {
    return contacts[static_cast<std::size_t>(other)] == Contact::late;
  }));
}

JobFailure Inquest::find(std::vector<std::string> const& hosts) const {
  std::vector<Way> ways;
  std::vector<bool> has_spoken(static_cast<std::size_t>(world_));
  for (auto const& [rank, complaint] : complaints_) {
    has_spoken[static_cast<std::size_t>(rank)] = true;
    for (int other = 0; other < world_; ++other) {
      add_ways(ways, rank, other, complaint.contacts[static_cast<std::size_t>(other)]);
    }
  }
  auto const verdict = judge(ways, hosts, has_spoken);
  if (verdict.ranks.empty()) {
    auto const distance = [this](int rank) { return std::pair{waiting_themselves(rank), rank != first_}; };
    int const nearest =
        *std::min_element(order_.begin(), order_.end(), [&](int a, int b) { return distance(a) < distance(b); });
    return {nearest, complaints_.at(nearest).words};
  }
  int const named = verdict.ranks.front();
  auto const& witnesses = verdict.not_heard.empty() || !has(named) ? verdict.not_hearing : verdict.ranks;
  auto const witness =
      std::find_if(witnesses.begin(), witnesses.end(), [this](int rank) { return complaints_.contains(rank); });
  auto const& words = complaints_.at(witness == witnesses.end() ? order_.front() : *witness).words;
  return {named, describe(verdict, hosts) + ": " + words};
}

}  // namespace zeroth::comm
