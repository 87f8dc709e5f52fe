// SPDX-License-Identifier: Apache-2.0
#include "engine/communicators.hpp"

namespace zeroth::engine {

int Split::color(shard::Places const& places, int rank) const noexcept {
  switch (among) {
    case Among::group: return places.group_of(rank);
    case Among::replicas: return places.piece_of(places.place_of(rank));
    case Among::all: break;
  }
  return 0;
}

std::vector<int> Split::ranks_with(int rank, shard::Places const& places) const {
  std::vector<int> ranks;
  for (int each = 0; each < places.world(); ++each) {
    if (color(places, each) == color(places, rank)) {
      ranks.push_back(each);
    }
  }
  return ranks;
}

std::vector<Split> splits_of(Settings const& settings, shard::PlanRequest const& request) {
  using shard::Placement;
  auto const& [parameters, gradients, optimizer] = request.placements;
  // Groups gather what they have each for themselves; replicas bring each other up to date.
  bool const cut = parameters == Placement::group || optimizer == Placement::group;
  bool const sums = request.sums_by_groups;
  bool const one = settings.single_communicator;
  std::vector<Split> splits;
  auto const add = [&](std::string const& name, bool gathers, Among among, bool needed) {
    if (needed) {
      splits.push_back({name, gathers, among});
    }
  };
  add(one ? "all" : "gather", true, Among::all, true);
  add(one ? "all-group" : "gather-group", true, Among::group, cut || (one && sums));
  add("reduce", false, Among::all, !one);
  add("reduce-group", false, Among::group, !one && sums);
  add(one ? "all-replicas" : "reduce-replicas", one, Among::replicas, cut || sums);
  return splits;
}

Communicators::Communicators(comm::Communicator& job, Settings const& settings, shard::PlanRequest const& request) {
  auto const& places = request.places;
  gather_.in_groups = reduce_.in_groups = places.replicas() > 1;
  for (auto const& split : splits_of(settings, request)) {
    job.set_options({.timeout = settings.timeout, .copy_engine = split.gathers && settings.copy_engine_gather});
    auto* const part =
        owned_.emplace_back(job.split(split.color(places, job.rank()), places.place_of(job.rank()), split.name)).get();
    auto& ranks = split.gathers ? gather_ : reduce_;
    (split.among == Among::all ? ranks.all : split.among == Among::group ? ranks.group : ranks.replicas) = part;
  }
  if (settings.single_communicator) {
    reduce_ = gather_;
  }
}

void Communicators::set_options(comm::CommOptions const& options) {
  for (auto const& each : owned_) {
    each->set_options(options);
  }
}

}  // namespace zeroth::engine
