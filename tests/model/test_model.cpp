// SPDX-License-Identifier: Apache-2.0
/// The properties that a model stores, and the arguments that it rejects.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

template <class F>
std::string refused(F const& call) {
  return thrown<ContractError>(call);
}

}  // namespace

TEST_CASE("a model keeps units and parameters in the order in which they were added") {
  Model model{42};
  auto const first = model.unit("first");
  auto const second = model.unit("second", {.uses_per_micro_step = 3});
  auto const late = model.param(second, "late", {4, 5}, Normal{0.5F});
  auto const early = model.param(first, "early", {7}, Constant{1}, {.trainable = false});
  auto const bias =
      model.param(second, "bias", {5}, Uniform{-1, 1}, {.learning_rate_factor = 2, .weight_decay_factor = 0});

  CHECK(first.index() == 0);
  CHECK(second.index() == 1);
  CHECK(first.model() == second.model());
  CHECK(late.shape() == Shape<2>{4, 5});
  CHECK(early.shape() == Shape<1>{7});
  CHECK(bias.shape() == Shape<1>{5});

  auto const& d = model.description();
  CHECK(d.id == first.model());
  CHECK(d.seed == 42);
  REQUIRE(d.units.size() == 2);
  CHECK(d.units[0_unit].name == "first");
  CHECK(d.units[0_unit].uses_per_micro_step == 0);
  CHECK(d.units[0_unit].params == std::vector{1_param});
  CHECK(d.units[1_unit].uses_per_micro_step == 3);
  CHECK(d.units[1_unit].params == std::vector{0_param, 2_param});
  REQUIRE(d.params.size() == 3);
  CHECK(d.params[0_param].name == "late");
  CHECK(d.params[0_param].shape == std::vector<std::int64_t>{4, 5});
  CHECK(d.params[0_param].count == 20);
  CHECK(d.params[0_param].owner == 1_unit);
  CHECK(d.params[1_param].owner == 0_unit);
  CHECK_FALSE(d.params[1_param].options.trainable);
  CHECK(d.params[2_param].options.learning_rate_factor == 2);
  CHECK(d.params[2_param].options.weight_decay_factor == 0);
}

TEST_CASE("ties are stored on both sides, in ascending order") {
  Model model;
  auto const a = model.unit("a");
  auto const b = model.unit("b");
  auto const c = model.unit("c");
  auto const w = model.param(b, "w", {2}, Constant{0});
  model.tie(c, w);
  model.tie(a, w);
  auto const& d = model.description();
  CHECK(d.params[0_param].owner == 1_unit);
  CHECK(d.params[0_param].ties == std::vector{0_unit, 2_unit});
  CHECK(d.units[0_unit].ties == std::vector{0_param});
  CHECK(d.units[1_unit].ties.empty());
  CHECK(d.units[2_unit].ties == std::vector{0_param});
}

TEST_CASE("parameter names must be unique, and valid in files") {
  Model model;
  auto const a = model.unit("a");
  auto const b = model.unit("b");
  static_cast<void>(model.param(a, "w", {2}, Constant{0}));
  auto const add = [&](Unit unit, char const* name) {
    return refused([&] { return model.param(unit, name, {2}, Constant{0}); });
  };
  CHECK_THAT(add(b, "w"), Contains("parameter name \"w\" is taken"));
  CHECK_THAT(add(b, ""), Contains("parameter name \"\" must not be empty"));
  CHECK_THAT(add(b, "__metadata__"), Contains("must not be empty or \"__metadata__\", which safetensors reserves"));
  CHECK(model.description().params.size() == 1);
  CHECK(model.description().units[1_unit].params.empty());
}

TEST_CASE("names that are invalid in files are rejected, and shown byte by byte") {
  Model model;
  auto const unit = model.unit("caf\xc3\xa9");
  CHECK_THAT(refused([&] { return model.unit("caf\xe9"); }), Contains("unit name \"caf\\xe9\" is not UTF-8"));
  CHECK_THAT(refused([&] { return model.param(unit, "caf\xe9\x1b", {2}, Constant{0}); }),
             Contains("parameter name \"caf\\xe9\\x1b\" is not UTF-8"));
  CHECK(model.description().units.size() == 1);
  CHECK(model.description().params.empty());
}

TEST_CASE("invalid shapes are rejected, and leave the model unchanged") {
  Model model;
  auto const unit = model.unit("u");
  CHECK_THAT(refused([&] {
               return model.param(unit, "zero", {3, 0}, Constant{0});
             }),
             Contains("parameter \"zero\" has shape [3, 0]: every extent must be positive"));
  CHECK_THAT(refused([&] { return model.param(unit, "less", {-4}, Constant{0}); }), Contains("shape [-4]"));
  auto const huge = std::int64_t{1} << 31U;
  CHECK_THAT(refused([&] {
               return model.param(unit, "huge", {huge, huge, 2}, Constant{0});
             }),
             Contains("parameter \"huge\" of shape [2147483648, 2147483648, 2] is too large"));
  CHECK_THAT(refused([&] { return model.param(unit, "max", {std::numeric_limits<std::int64_t>::max()}, Constant{0}); }),
             Contains("too large"));
  CHECK(model.description().params.empty());
  CHECK(model.description().units[0_unit].params.empty());
  // Past 2^31 elements is fine: nothing is allocated.
  CHECK(model.param(unit, "large", {huge, 3}, Constant{0}).shape()[0] == huge);
  CHECK(model.description().params[0_param].count == 3 * huge);
}

TEST_CASE("a model has at most 2^54 elements, so that no count of its bytes overflows") {
  std::int64_t const most = std::int64_t{1} << 54U;
  Model model;
  auto const unit = model.unit("u");
  CHECK_THAT(refused([&] { return model.param(unit, "more", {most + 1}, Constant{0}); }),
             Contains("parameter \"more\" of shape [18014398509481985] is too large; allowed: up to 18014398509481984 "
                      "(2^54) elements"));
  static_cast<void>(model.param(unit, "most", {most - 5}, Constant{0}));
  static_cast<void>(model.param(unit, "rest", {4}, Constant{0}));
  CHECK_THAT(
      refused([&] { return model.param(unit, "beyond", {2}, Constant{0}); }),
      Contains("parameter \"beyond\" of 2 elements makes the model too large, which has 18014398509481983 without "
               "it; allowed: up to 18014398509481984 (2^54) together"));
  static_cast<void>(model.param(unit, "last", {1}, Constant{0}));
  CHECK(model.description().count == most);
  CHECK(model.description().params.size() == 3);
}

TEST_CASE("invalid initial values are rejected") {
  Model model;
  auto const unit = model.unit("u");
  CHECK_THAT(refused([&] { return model.unit("never", {.uses_per_micro_step = 0}); }),
             Contains("unit \"never\": uses_per_micro_step is 0, must be 1 or more"));
  CHECK_THAT(refused([&] { return model.param(unit, "w", {2}, PerElement{}); }),
             Contains("parameter \"w\": its PerElement has no function"));
  CHECK_THAT(refused([&] { return model.param(unit, "w", {2}, Constant{0}, {.learning_rate_factor = -1}); }),
             Contains("parameter \"w\": learning_rate_factor is -1, must be 0 or more and finite"));
  CHECK_THAT(refused([&] { return model.param(unit, "w", {2}, Constant{0}, {.weight_decay_factor = NAN}); }),
             Contains("parameter \"w\": weight_decay_factor is nan"));
  CHECK(model.description().units.size() == 1);
  CHECK(model.description().params.empty());
}

TEST_CASE("matrices have two extents, are trained, and are multiplied with") {
  Model model;
  auto const unit = model.unit("u"), table = model.unit("table", {.rows_per_sample = 0});
  ParamOptions const matrix{.matrix = true};
  CHECK_THAT(refused([&] {
               return model.param(unit, "w", {2, 3, 4}, Constant{0}, matrix);
             }),
             Contains("parameter \"w\" of shape [2, 3, 4] has ParamOptions::matrix, which is for shapes of 2 extents"));
  CHECK_THAT(
      refused([&] {
        return model.param(unit, "w", {2, 3}, Constant{0}, {.trainable = false, .matrix = true});
      }),
      Contains("parameter \"w\" has ParamOptions::matrix and is frozen; the option is for trainable parameters"));
  CHECK_THAT(refused([&] {
               return model.param(table, "w", {2, 3}, Constant{0}, matrix);
             }),
             Contains("parameter \"w\" has ParamOptions::matrix, and unit \"table\" looks its rows up"));
  auto const w = model.param(unit, "w", {2, 3}, Constant{0}, matrix);
  CHECK_THAT(refused([&] { model.tie(table, w); }), Contains("unit \"table\" looks its rows up"));
  CHECK(model.description().units[1_unit].ties.empty());
  CHECK(model.description().params[0_param].options.matrix);
}

TEST_CASE("ids of another model are refused") {
  Model mine;
  Model other;
  auto const unit = mine.unit("mine");
  auto const foreign = other.unit("other");
  auto const w = mine.param(unit, "w", {2}, Constant{0});
  auto const foreign_w = other.param(foreign, "w", {2}, Constant{0});
  CHECK(unit.model() != foreign.model());
  CHECK_THAT(refused([&] { return mine.param(foreign, "x", {2}, Constant{0}); }),
             Contains("parameter \"x\" is added to a unit of another model"));
  CHECK_THAT(refused([&] { mine.tie(foreign, w); }), Contains("tie() mixes units and parameters of two models"));
  CHECK_THAT(refused([&] { mine.tie(unit, foreign_w); }), Contains("tie() mixes"));
}

TEST_CASE("a redundant tie is rejected") {
  Model model;
  auto const a = model.unit("a");
  auto const b = model.unit("b");
  auto const w = model.param(a, "w", {2}, Constant{0});
  CHECK_THAT(refused([&] { model.tie(a, w); }), Contains("unit \"a\" made parameter \"w\" and uses it already"));
  model.tie(b, w);
  CHECK_THAT(refused([&] { model.tie(b, w); }), Contains("unit \"b\" is tied to parameter \"w\" twice"));
  CHECK(model.description().units[1_unit].ties.size() == 1);
}

}  // namespace zeroth::testing
