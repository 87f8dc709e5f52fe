// SPDX-License-Identifier: Apache-2.0
#include "engine/communicators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "shard/matrix_homes.hpp"
#include "shard/route.hpp"

namespace zeroth::engine {

int Split::color(shard::Places const& places, int rank) const noexcept {
  return places.index(shard::all_axes ^ axes, places.place_of(rank));
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
  using shard::Lane;
  bool const one = settings.single_communicator;
  auto const is_used = [&](Lane lane, shard::Axes axes) {
    bool const moves_matrices =
        shard::has_directions(settings) && (one || lane == Lane::reduce) && axes == shard::axes_of_homes(request);
    auto const is_on = [&](shard::Route const& route) {
      return (one || route.lane == lane) &&
             std::ranges::any_of(route.hops, [&](auto const& hop) { return hop.axes == axes; });
    };
    auto const [gather, gather_frozen, sum, share, publish] = shard::routes_of({}, request, 0);
    return axes == shard::all_axes || moves_matrices || is_on(gather) || is_on(sum) || is_on(share) || is_on(publish);
  };
  std::vector<Split> splits;
  for (auto const lane : {Lane::gather, Lane::reduce}) {
    for (auto const axes : shard::Ranks::in_order) {
      if (is_used(lane, axes) && (lane == Lane::gather || !one)) {
        auto const* const name = one ? "all" : lane == Lane::gather ? "gather" : "reduce";
        auto const* const among = axes == shard::group_axes ? "-group" : axes == shard::replica_axes ? "-replicas" : "";
        splits.push_back({fmt::format("{}{}", name, among), lane, axes});
      }
    }
  }
  return splits;
}

Communicators::Communicators(comm::Communicator& job, Settings const& settings, shard::PlanRequest const& request) {
  auto const& places = request.places;
  for (auto const& split : splits_of(settings, request)) {
    bool const gathers = split.lane == shard::Lane::gather;
    job.set_options({.timeout = settings.timeout, .copy_engine = gathers && settings.copy_engine_gather});
    auto* const part =
        owned_.emplace_back(job.split(split.color(places, job.rank()), places.place_of(job.rank()), split.name)).get();
    (gathers ? gather_ : reduce_).set(split.axes, part);
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

TieCommunicators::TieCommunicators(comm::Communicator& line, Share const& share) {
  std::set<std::vector<int>> sets;  // the same order on all ranks
  for (auto const& param : share.params()) {
    if (auto stages = param.stages(); stages.size() > 1) {
      sets.insert(std::move(stages));
    }
  }
  for (auto const& stages : sets) {
    bool const is_in = std::ranges::binary_search(stages, line.rank());
    auto part = line.split(is_in ? 0 : 1, line.rank(), name_of_ties);
    if (is_in) {
      by_stages_.emplace(stages, std::move(part));
    }
  }
}

comm::Communicator* TieCommunicators::over(std::vector<int> const& stages) const noexcept {
  auto const found = by_stages_.find(stages);
  return found == by_stages_.end() ? nullptr : found->second.get();
}

std::vector<comm::Communicator*> TieCommunicators::of(shard::Layout const& layout) const {
  std::vector<comm::Communicator*> all;
  for (auto const& tie : layout.ties()) {
    all.push_back(over(tie.stages));
  }
  return all;
}

void TieCommunicators::set_options(comm::CommOptions const& options) {
  for (auto const& [stages, communicator] : by_stages_) {
    communicator->set_options(options);
  }
}

}  // namespace zeroth::engine
