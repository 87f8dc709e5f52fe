// SPDX-License-Identifier: Apache-2.0
/// The paths of states between placements: collectives as data. Pure arithmetic.
#pragma once
#include <vector>

#include "shard/memory_plan.hpp"
#include "shard/ranks.hpp"

namespace zeroth::shard {

/// One collective. Each rank contributes the elements `from` of a part, and receives `to`.
struct Hop {
  comm::Operation operation;
  Axes axes;  ///< Over which ranks.
  Range from, to;
  friend bool operator==(Hop const&, Hop const&) = default;
};

/// Successive hops on one lane. Empty if nothing has to move.
struct Route {
  Lane lane = Lane::gather;
  std::vector<Hop> hops;
};

/// All-gathers from this rank's elements of `part` under `from` to those under `to`.
[[nodiscard]] Route route_of_gather(Part const& part, Placement from, Placement to, Places const& places, int place);

/// The routes of a flat unit's states.
struct Routes {
  Route gather, gather_frozen;  ///< Parameters, from where they live to the whole, for a use.
  Route sum;                    ///< Gradients, from what backward wrote to the sums that this rank gets.
  Route share;                  ///< Sums of gradients, from there to the elements of this rank's optimizer.
  Route publish;                ///< Parameters, from what this rank's optimizer updated to what this rank holds.
};
[[nodiscard]] Routes routes_of(FlatUnit const& flat, PlanRequest const& request, int place);

}  // namespace zeroth::shard
