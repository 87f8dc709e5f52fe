// SPDX-License-Identifier: Apache-2.0
/// Places of ranks in groups.
#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "shard/places.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {

using shard::Places;

TEST_CASE("places: one group keeps the order of ranks") {
  for (int const world : {1, 2, 7}) {
    Places const places{world, world};
    CHECK(places.replicas() == 1);
    for (int rank = 0; rank < world; ++rank) {
      CHECK(places.place_of(rank) == rank);
      CHECK(places.rank_at(rank) == rank);
      CHECK(places.index(shard::replica_axes, rank) == 0);
    }
  }
}

TEST_CASE("places: groups are consecutive ranks, and replicas neighbouring places") {
  for (auto const& [world, group] : {std::pair{6, 2}, std::pair{6, 3}, std::pair{8, 4}, std::pair{5, 1}}) {
    INFO(world << " ranks in groups of " << group);
    Places const places{world, group};
    CHECK(places.world() == world);
    CHECK(places.group() == group);
    CHECK(places.replicas() == world / group);
    std::set<int> taken;
    for (int rank = 0; rank < world; ++rank) {
      auto const place = places.place_of(rank);
      taken.insert(place);
      CHECK(places.rank_at(place) == rank);
      CHECK(places.index(shard::replica_axes, place) == rank / group);
      CHECK(places.index(shard::group_axes, place) == rank % group);
      CHECK(places.index(shard::all_axes, place) == place);
      // The first ranks of all groups, then the second ones, ...
      CHECK(place / places.replicas() == rank % group);
      CHECK(place % places.replicas() == rank / group);
    }
    CHECK(std::ssize(taken) == world);
    CHECK(*taken.begin() == 0);
    CHECK(*taken.rbegin() == world - 1);
  }
  std::vector<int> order;
  for (int place = 0; place < 6; ++place) {
    order.push_back(Places{6, 3}.rank_at(place));
  }
  CHECK(order == std::vector{0, 3, 1, 4, 2, 5});
}

TEST_CASE("places: groups of other sizes are refused") {
  for (auto const& [world, group] :
       {std::pair{8, 3}, std::pair{4, 0}, std::pair{4, -2}, std::pair{0, 1}, std::pair{2, 4}}) {
    CHECK_THROWS_WITH((Places{world, group}), Catch::Contains(fmt::format("{} ranks in groups of {}", world, group)));
  }
}

}  // namespace zeroth::testing
