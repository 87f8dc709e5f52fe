// SPDX-License-Identifier: Apache-2.0
/// Ranks compare fingerprints to know that they build the same model: every field that matters must change it.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {
namespace {

model::Description sample(std::uint64_t seed = 5) {
  Model model{seed};
  auto const a = model.unit("a");
  auto const b = model.unit("b", {.uses_per_micro_step = 2});
  auto const w = model.param(a, "w", {6, 2}, Normal{0.5F, 0.25F});
  static_cast<void>(model.param(a, "bias", {6}, Constant{1}));
  static_cast<void>(model.param(b, "x", {3}, Uniform{-1, 1}));
  static_cast<void>(model.param(b, "table", {3}, PerElement{[](std::int64_t i) { return static_cast<float>(i); }}));
  model.tie(b, w);
  return model.description();
}

struct Change {
  char const* what;
  std::function<void(model::Description&)> apply;
};

std::vector<Change> const changes = {
    {"seed", [](auto& d) { ++d.seed; }},
    {"a unit's name", [](auto& d) { d.units[0_unit].name = "c"; }},
    {"a letter that moves from one name to the next",
     [](auto& d) { d.units[0_unit].name = "ab", d.units[1_unit].name = ""; }},
    {"uses per micro-step", [](auto& d) { d.units[1_unit].uses_per_micro_step = 1; }},
    {"staying open", [](auto& d) { d.units[1_unit].stays_open = true; }},
    {"order of units", [](auto& d) { std::swap(d.units[0_unit], d.units[1_unit]); }},
    {"one more unit",
     [](auto& d) {
       d.units.push_back({.name = "c", .uses_per_micro_step = 1, .stays_open = false, .params = {}, .ties = {}});
     }},
    {"order of a unit's parameters", [](auto& d) { std::swap(d.units[0_unit].params[0], d.units[0_unit].params[1]); }},
    {"who owns a parameter",
     [](auto& d) {
       d.units[0_unit].params.pop_back();
       d.units[1_unit].params.push_back(1_param);
     }},
    {"no tie", [](auto& d) { d.units[1_unit].ties.clear(); }},
    {"another tie", [](auto& d) { d.units[1_unit].ties[0] = 1_param; }},
    {"a parameter's name", [](auto& d) { d.params[0_param].name = "v"; }},
    {"an extent", [](auto& d) { d.params[1_param].shape[0] = 7; }},
    {"the same count in another shape",
     [](auto& d) {
       d.params[0_param].shape = {2, 6};
     }},
    {"one more dimension",
     [](auto& d) {
       d.params[1_param].shape = {6, 1};
     }},
    {"kind of initialiser",
     [](auto& d) {
       d.params[2_param].init = Normal{-1, 1};
     }},
    {"a constant", [](auto& d) { d.params[1_param].init = Constant{2}; }},
    {"stddev",
     [](auto& d) {
       d.params[0_param].init = Normal{0.75F, 0.25F};
     }},
    {"mean",
     [](auto& d) {
       d.params[0_param].init = Normal{0.5F, 0};
     }},
    {"lower bound",
     [](auto& d) {
       d.params[2_param].init = Uniform{-2, 1};
     }},
    {"upper bound",
     [](auto& d) {
       d.params[2_param].init = Uniform{-1, 2};
     }},
    {"trainable", [](auto& d) { d.params[1_param].options.trainable = false; }},
    {"learning rate factor", [](auto& d) { d.params[1_param].options.learning_rate_factor = 2; }},
    {"weight decay factor", [](auto& d) { d.params[1_param].options.weight_decay_factor = 0; }},
    {"a matrix", [](auto& d) { d.params[0_param].options.matrix = true; }},
};

}  // namespace

TEST_CASE("equal models have the same fingerprint") {
  CHECK(sample().id != sample().id);
  CHECK(model::fingerprint(sample()) == model::fingerprint(sample()));
  CHECK(model::fingerprint(sample(5)) != model::fingerprint(sample(6)));
}

TEST_CASE("every change gives a different fingerprint") {
  std::vector<std::uint64_t> seen{model::fingerprint(sample())};
  for (auto const& change : changes) {
    auto changed = sample();
    change.apply(changed);
    auto const print = model::fingerprint(changed);
    INFO(change.what);
    CHECK(std::find(seen.begin(), seen.end(), print) == seen.end());
    seen.push_back(print);
  }
}

TEST_CASE("a function is fingerprinted by values from its first to its last element") {
  for (std::int64_t const count : {1, 2, 3, 16, 17, 1000}) {
    auto const with = [&](std::int64_t special) {
      Model model;
      auto const value = [=](std::int64_t i) { return i == special ? 2.0F : 1.0F; };
      static_cast<void>(model.param(model.unit("u"), "w", {count}, PerElement{value}));
      return model::fingerprint(model.description());
    };
    INFO("of " << count << " elements");
    CHECK(with(-1) == with(-1));
    CHECK(with(0) != with(-1));
    CHECK(with(count - 1) != with(-1));
  }
}

TEST_CASE("an initialiser that is not a function of the index is rejected with the parameter's name") {
  auto changed = sample();
  changed.params[3_param].init = PerElement{[next = 0.0F](std::int64_t) mutable { return next += 1; }};
  CHECK_THAT(
      thrown<ContractError>([&] { return model::fingerprint(changed); }),
      Catch::Contains("PerElement of parameter \"table\" gave 1, then 2 for element 0: it must be a pure function "
                      "of the index"));
}

}  // namespace zeroth::testing
