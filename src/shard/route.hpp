// SPDX-License-Identifier: Apache-2.0
/// How states get from where they are to where they must be: collectives as data. Pure arithmetic.
#pragma once
#include <vector>

#include "shard/memory_plan.hpp"
#include "shard/ranks.hpp"

namespace zeroth::shard {

/// One collective. Each rank brings the elements `from` of a part, and gets `to`.
struct Hop {
  comm::Operation operation;
  Axes axes;  ///< Over which ranks.
  Range from, to;
  friend bool operator==(Hop const&, Hop const&) = default;
};

/// Hops that follow each other on one lane. None: everything is where it must be.
struct Route {
  Lane lane = Lane::gather;
  std::vector<Hop> hops;
};

/// All-gathers from what each rank holds of `part` under `from` to what it holds under `to`.
[[nodiscard]] Route route_of_gather(Part const& part, Placement from, Placement to, Places const& places, int place);

/// The routes of a flat unit's states.
struct Routes {
  Route gather, gather_frozen;  ///< Parameters, from where they live to the whole, for a use.
  Route sum;                    ///< Gradients, from what backward wrote to what this rank is left by sums.
  Route share;                  ///< Sums of gradients, from there to what the optimizer of this rank holds.
  Route publish;                ///< Parameters, from what the optimizer of this rank updated to what this rank holds.
};
[[nodiscard]] Routes routes_of(FlatUnit const& flat, PlanRequest const& request, int place);

}  // namespace zeroth::shard
