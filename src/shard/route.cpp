// SPDX-License-Identifier: Apache-2.0
#include "shard/route.hpp"

#include <span>

namespace zeroth::shard {
namespace {

using comm::Operation;

/// The hops between successive placements of `path` that differ.
std::vector<Hop> hops_along(Part const& part, std::initializer_list<Placement> path, Operation operation,
                            Places const& places, int place) {
  std::vector<Hop> hops;
  Placement at = *path.begin();
  for (auto const next : path) {
    if (next != at) {
      hops.push_back({operation, at.cut ^ next.cut, held(part, at, places, place), held(part, next, places, place)});
    }
    at = next;
  }
  return hops;
}

}  // namespace

Route route_of_gather(Part const& part, Placement from, Placement to, Places const& places, int place) {
  auto hops = hops_along(part, {from, to}, Operation::all_gather, places, place);
  // Exchanges among replicas run concurrently with gathers within groups, when the reduce stream is otherwise idle.
  bool const among_replicas = !hops.empty() && hops.front().axes == replica_axes;
  return {among_replicas ? Lane::reduce : Lane::gather, std::move(hops)};
}

Routes routes_of(FlatUnit const& flat, PlanRequest const& request, int place) {
  auto const& places = request.places;
  auto const& part = flat.trainable;
  auto const& gradients = flat.gradients();
  auto const optimizer = request.placements.optimizer;
  auto const parameters = placement_of_parameters(flat, request);
  bool const by_groups = request.sums_by_groups;
  // If the optimizer holds everything, one all-reduce yields everything, unless the sum has to be sliced.
  bool const sums_whole =
      optimizer == Placement::whole && !by_groups && !folds(request) && request.settings.reduce_codec == Codec::none;
  auto const scattered = [&](Placement by_way_of) {
    return hops_along(gradients, {Placement::whole, by_way_of, Placement::shard}, Operation::reduce_scatter, places,
                      place);
  };
  auto const shared = [&](Placement by_way_of) {
    return hops_along(gradients, {Placement::shard, by_way_of, optimizer}, Operation::all_gather, places, place);
  };
  Routes routes;
  if (optimizer.is_absent || request.workers > 0) {
    return routes;  // see ServerLinks
  }
  routes.gather = route_of_gather(part, parameters, Placement::whole, places, place);
  routes.gather_frozen = route_of_gather(flat.frozen, parameters, Placement::whole, places, place);
  routes.publish = route_of_gather(part, optimizer, parameters, places, place);
  routes.sum.lane = routes.share.lane = Lane::reduce;
  if (sums_whole) {
    Range const all{0, gradients.padded_count};
    routes.sum.hops = {{Operation::all_reduce, all_axes, all, all}};
  } else {
    routes.sum.hops = scattered(by_groups ? Placement::group : Placement::whole);
    routes.share.hops = shared(by_groups && optimizer == Placement::whole ? Placement::group : Placement::shard);
  }
  return routes;
}

}  // namespace zeroth::shard
