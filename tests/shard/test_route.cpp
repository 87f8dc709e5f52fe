// SPDX-License-Identifier: Apache-2.0
/// Routes: which collectives bring a state from where it is to where it must be.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "shard/route.hpp"
#include "support/catch.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::testing {
namespace {

using comm::Operation;
using shard::Placement;
using shard::PlanRequest;
using shard::Route;

/// "reduce_scatter over shard, reduce_scatter over replicate" of the reduce lane, say.
std::string in_words(Route const& route) {
  std::string words;
  for (auto const& [operation, axes, from, to] : route.hops) {
    auto const* const over = axes == shard::all_axes       ? "both"
                             : axes == shard::group_axes   ? "shard"
                             : axes == shard::replica_axes ? "replicate"
                                                           : "?";
    words += fmt::format("{}{} over {}", words.empty() ? "" : ", ", comm::name_of(operation), over);
  }
  return words;
}

PlanRequest request_of(shard::Placements const& placements, bool sums_by_groups, bool folds) {
  PlanRequest request;
  request.placements = placements;
  request.places = {6, 3};
  request.sums_by_groups = sums_by_groups;
  request.folds_into_sums = folds;
  request.several_reductions = true;  // sums are apart
  return request;
}

constexpr auto whole = Placement::whole, group = Placement::group, slice = Placement::shard;

struct RouteCase {
  shard::Placements placements;
  bool sums_by_groups, folds;
  std::string gather, sum, share, publish;
};

}  // namespace

TEST_CASE("routes are what a stage, groups and sums in two levels ask for") {
  std::string const scatter = "reduce_scatter over both", gather = "all_gather over both",
                    scatters = "reduce_scatter over shard, reduce_scatter over replicate",
                    of_group = "all_gather over shard", of_replicas = "all_gather over replicate";
  for (auto const& [placements, by_groups, folds, gathered, sum, share, publish] : {
           RouteCase{{whole, whole, whole}, false, false, "", "all_reduce over both", "", ""},
           RouteCase{{whole, whole, whole}, false, true, "", scatter, gather, ""},
           RouteCase{{whole, whole, whole}, true, false, "", scatters, of_replicas + ", " + of_group, ""},
           RouteCase{{whole, whole, slice}, false, true, "", scatter, "", gather},
           RouteCase{{whole, slice, slice}, false, false, "", scatter, "", gather},
           RouteCase{{slice, slice, slice}, false, true, gather, scatter, "", ""},
           RouteCase{{slice, slice, slice}, true, false, gather, scatters, "", ""},
           RouteCase{{group, slice, slice}, false, true, of_group, scatter, "", of_replicas},  // hpZ
           RouteCase{{group, slice, slice}, true, false, of_group, scatters, "", of_replicas},
           RouteCase{{group, group, group}, false, true, of_group, scatter, of_replicas, ""},  // MiCS
           RouteCase{{whole, group, group}, true, false, "", scatters, of_replicas, of_group},
       }) {
    auto const routes = shard::routes_of({}, request_of(placements, by_groups, folds), 0);
    INFO(sum << "; " << share << "; " << publish);
    CHECK(in_words(routes.gather) == gathered);
    CHECK(in_words(routes.gather_frozen) == gathered);
    CHECK(in_words(routes.sum) == sum);
    CHECK(in_words(routes.share) == share);
    CHECK(in_words(routes.publish) == publish);
    CHECK(routes.sum.lane == shard::Lane::reduce);
    CHECK(routes.share.lane == shard::Lane::reduce);
    CHECK(routes.gather.lane == shard::Lane::gather);
    CHECK((routes.publish.lane == shard::Lane::reduce) == (publish == of_replicas));
  }
}

TEST_CASE("persistent parameters have routes of their own") {
  shard::FlatUnit flat;
  flat.persistent = true;
  auto const hpz = shard::routes_of(flat, request_of({group, slice, slice}, false, true), 0);
  CHECK(in_words(hpz.gather).empty());
  CHECK(in_words(hpz.publish) == "all_gather over both");
  CHECK(hpz.publish.lane == shard::Lane::gather);
  auto const mics = shard::routes_of(flat, request_of({group, group, group}, false, true), 0);
  CHECK(in_words(mics.publish) == "all_gather over shard");
}

TEST_CASE("a route begins where a state is, goes on where it came, and ends where it must be") {
  Model model;
  auto const unit = model.unit("u");
  static_cast<void>(model.param(unit, "w", {2500}, Constant{0}));
  shard::Layout const layout{model.description(), 6};
  auto const& flat = layout.flats().front();
  auto const& part = flat.trainable;
  for (auto const& placements : {shard::Placements{whole, whole, whole}, shard::Placements{whole, whole, slice},
                                 shard::Placements{slice, slice, slice}, shard::Placements{group, slice, slice},
                                 shard::Placements{group, group, group}}) {
    for (bool const by_groups : {false, true}) {
      auto const request = request_of(placements, by_groups, !by_groups);
      for (int place = 0; place < 6; ++place) {
        auto const held = [&](Placement placement) { return shard::held(part, placement, request.places, place); };
        auto const check = [&](Route const& route, shard::Range from, shard::Range to) {
          for (auto const& hop : route.hops) {
            CHECK(hop.from == from);
            auto const ranks = request.places.size(hop.axes);
            CHECK((hop.operation == Operation::all_gather ? hop.from.count() * ranks == hop.to.count()
                                                          : hop.to.count() * ranks == hop.from.count()));
            from = hop.to;
          }
          CHECK(from == to);
        };
        auto const routes = shard::routes_of(flat, request, place);
        check(routes.gather, held(placements.parameters), held(whole));
        check(routes.sum, held(whole), held(slice));
        check(routes.share, held(slice), held(placements.optimizer));
        check(routes.publish, held(placements.optimizer), held(placements.parameters));
      }
    }
  }
}

}  // namespace zeroth::testing
