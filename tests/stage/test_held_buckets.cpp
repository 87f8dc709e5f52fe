// SPDX-License-Identifier: Apache-2.0
/// The buckets that wait while a tied parameter's gradient is reduced first.
#include "stage/held_buckets.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/ids.hpp"

namespace zeroth::testing {
namespace {

using shard::FlatId;
using shard::Layout;
using stage::HeldBuckets;

/// An embedding, four blocks of as many elements, and a head, which has the embedding's weight if it is `tied`.
Layout layout_of(bool tied) {
  Model model;
  auto const embedding = model.unit("embedding");
  auto const weight = model.param(embedding, "weight", {128}, Constant{0});
  static_cast<void>(model.param(embedding, "positions", {128}, Constant{0}));
  for (int block = 0; block < 4; ++block) {
    auto const name = "block" + std::to_string(block);
    static_cast<void>(model.param(model.unit(name), name, {1024}, Constant{0}));
  }
  auto const head = model.unit("head");
  static_cast<void>(model.param(head, "norm", {128}, Constant{0}));
  if (tied) {
    model.tie(head, weight);
  }
  return Layout{model.description(), 1};
}

/// Passes buckets of one flat unit each. Returns the order in which they are reduced, by name.
std::vector<std::string> order_of(Layout const& layout, bool enabled) {
  HeldBuckets held{layout, enabled};
  std::vector<std::string> names;
  auto const reduce = [&](stage::Buckets::Bucket bucket) {
    for (auto const flat : bucket) {
      names.push_back(layout.flats()[flat].name);
    }
  };
  auto const release = [&] {
    for (auto const bucket : held.all()) {
      reduce(bucket);
    }
    held.clear();
  };
  auto const order = layout.completion_order();
  for (std::size_t at = 0; at < order.size(); ++at) {
    auto const bucket = order.subspan(at, 1);
    if (held.holds(bucket)) {
      continue;
    }
    reduce(bucket);
    if (held.releases(bucket)) {
      release();
    }
  }
  release();
  return names;
}

std::vector<std::string> declared(Layout const& layout) {
  std::vector<std::string> names;
  for (auto const flat : layout.completion_order()) {
    names.push_back(layout.flats()[flat].name);
  }
  return names;
}

}  // namespace

TEST_CASE("a tied gradient passes the buckets of the second half") {
  auto const layout = layout_of(true);
  auto const all = declared(layout);
  auto const order = order_of(layout, true);
  REQUIRE(order.size() == all.size());
  // Less than half of all gradients are complete before block1 is.
  CHECK(std::vector(order.begin(), order.begin() + 4) ==
        std::vector<std::string>{"head", "block3", "block2", "block1"});
  auto const place = [&](std::string const& name) { return std::ranges::find(order, name) - order.begin(); };
  CHECK(place("weight") < place("block0"));
  auto const all_but = [](std::vector<std::string> names) {
    std::erase(names, "block0");
    return names;
  };
  CHECK(all_but(order) == all_but(all));
}

TEST_CASE("nothing is held without delayed updates, or without tied parameters") {
  CHECK(order_of(layout_of(true), false) == declared(layout_of(true)));
  CHECK(order_of(layout_of(false), true) == declared(layout_of(false)));
}

TEST_CASE("a bucket with the tied gradient in it is never held") {
  auto const layout = layout_of(true);
  HeldBuckets held{layout, true};
  auto const order = layout.completion_order();
  CHECK_FALSE(held.holds(order));
  CHECK(held.releases(order));
  auto const last = order.last(3);
  CHECK_FALSE(held.holds(last));
  CHECK(held.all().empty());
}

}  // namespace zeroth::testing
