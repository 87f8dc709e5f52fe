// SPDX-License-Identifier: Apache-2.0
/// A tensor rank's layout: flat units by kind, positions of elements in the whole model, and the ranks whose squares
/// count.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shard/layout.hpp"
#include "shard/memory_plan.hpp"
#include "support/catch.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::testing {
namespace {

using shard::FlatUnit;
using shard::Layout;
using shard::TensorKind;

/// Cut by columns in two sections, by rows, with padding; whole, partial, frozen and tied ones.
Model model_of(TensorPart part) {
  Model model{3, part};
  auto const embedding = model.unit("embedding");
  auto const table = model.param(embedding, "table", {67, 10}, Normal{1}, {.cut = {{.dim = 0, .multiple = 8}}});
  auto const block = model.unit("block");
  static_cast<void>(model.param(block, "norm", {10}, Constant{1}, {.partial = true}));
  static_cast<void>(model.param(block, "first", {10, 48}, Normal{1},
                                {.learning_rate_factor = 3, .cut = {{.dim = 1, .sections = {12, 36}}}}));
  static_cast<void>(model.param(block, "scale", {77}, Constant{1}));
  static_cast<void>(model.param(block, "fixed", {12, 10}, Constant{1}, {.trainable = false, .cut = {{.dim = 0}}}));
  static_cast<void>(model.param(block, "second", {24, 130}, Normal{1}, {.cut = {{.dim = 0}}}));
  static_cast<void>(model.param(block, "bias", {130}, Constant{0}, {.partial = true}));
  auto const head = model.unit("head");
  model.tie(head, table);
  static_cast<void>(model.param(head, "gain", {130}, Constant{0}));
  return model;
}

std::vector<std::string> names_of(Layout const& layout) {
  std::vector<std::string> names;
  for (auto const& flat : layout.flats()) {
    names.push_back(flat.name);
  }
  return names;
}

}  // namespace

TEST_CASE("a unit's parameters that are cut, whole and partial are flat units of their own, and one with one rank") {
  Layout const alone{model_of({}).description(), 2};
  CHECK(names_of(alone) == std::vector<std::string>{"table", "block", "head"});
  CHECK(std::ranges::all_of(alone.flats(), [](FlatUnit const& f) { return f.tensor_kind == TensorKind::cut; }));

  Layout const layout{model_of({1, 3}).description(), 2};
  CHECK(names_of(layout) ==
        std::vector<std::string>{"table", "block", "block (whole)", "block (partial)", "head (whole)"});
  std::vector<TensorKind> kinds;
  for (auto const& flat : layout.flats()) {
    kinds.push_back(flat.tensor_kind);
  }
  using enum TensorKind;
  CHECK(kinds == std::vector{cut, cut, whole, partial, whole});

  Layout const persistent{
      model_of({1, 3}).description(), 2, {.persistence = {.param_count = 100, .model_count = 1000}}};
  CHECK(names_of(persistent) == std::vector<std::string>{"table", "block", "block (partial)", "block (persistent)",
                                                         "block (whole, persistent)", "block (partial, persistent)",
                                                         "head (whole)"});
}

TEST_CASE("segments of all tensor ranks have every element of the whole model once, where one rank has it") {
  auto const places_in = [](Model const& model, int world) {
    std::map<std::int64_t, int> times;
    auto const& description = model.description();
    Layout const layout{description, world};
    for (auto const& flat : layout.flats()) {
      if (flat.tensor_kind != TensorKind::cut && description.tensor.index > 0) {
        continue;  // the same as the first tensor rank has
      }
      for (int place = 0; place < world; ++place) {
        for (auto const& segment : shard::segments(description, flat.trainable, flat.trainable.slice(place))) {
          for (auto i = segment.begin; i < segment.end; ++i) {
            ++times[segment.element + i - segment.begin];
          }
        }
      }
    }
    return times;
  };
  auto const whole = places_in(model_of({}), 1);
  CHECK(whole.size() == 670 + 10 + 480 + 77 + 24 * 130 + 130 + 130);
  for (int const of : {2, 3, 4}) {
    for (int const world : {1, 3}) {
      std::map<std::int64_t, int> all;
      for (int index = 0; index < of; ++index) {
        for (auto const& [element, times] : places_in(model_of({index, of}), world)) {
          all[element] += times;
        }
      }
      INFO(fmt::format("{} tensor ranks, each {} data ranks", of, world));
      CHECK(all == whole);
    }
  }
}

TEST_CASE("the first element of a cut column is where the whole parameter has it, with the parameter's factors") {
  auto const model = model_of({2, 3});
  auto const& description = model.description();
  Layout const layout{description, 1};
  auto const first = description.param_named.at("first");
  auto const& location = layout.location(first);
  auto const& part = layout.flats()[location.flat].trainable;
  auto const elements = shard::elements_of(description);
  CHECK(elements[first] == 768 + 128);  // after the whole of "table", [67, 10], and "norm"
  // Rows of 4 + 12 elements: columns 8 to 11 of the first section, and 24 to 35 of the second.
  auto const of_row = shard::segments(description, part, {location.in_part + 16, location.in_part + 32});
  REQUIRE(of_row.size() == 2);
  CHECK(of_row[0].begin == 0);
  CHECK(of_row[0].end == 4);
  CHECK(of_row[0].element == elements[first] + 48 + 8);
  CHECK(of_row[1].begin == 4);
  CHECK(of_row[1].end == 16);
  CHECK(of_row[1].element == elements[first] + 48 + 12 + 24);
  CHECK(of_row[1].learning_rate_factor == 3);
}

TEST_CASE("padding of a part is in no segment") {
  auto const model = model_of({2, 3});  // rows 48 to 66 of 67, and five of padding
  auto const& description = model.description();
  Layout const layout{description, 1};
  auto const table = description.param_named.at("table");
  CHECK(description.params[table].count == 240);
  auto const segments = shard::segments(description, layout.flats()[layout.location(table).flat].trainable, {0, 240});
  REQUIRE(segments.size() == 1);
  CHECK(segments[0].end == 190);
  CHECK(segments[0].element == shard::elements_of(description)[table] + 480);
}

TEST_CASE("squares of what all tensor ranks have count on the first of them, and plans are the same but for that") {
  auto const plan_of = [](TensorPart part) {
    Layout const layout{model_of(part).description(), 2};
    shard::PlanRequest request;
    request.places = {2, 1};
    request.tensor = part;
    return std::pair{layout.flats().size(), shard::plan_memory(layout, request)};
  };
  auto const [count, first] = plan_of({0, 3});
  auto const [count_of_last, last] = plan_of({2, 3});
  CHECK(first.counted_block_sums == first.block_sum_count);
  CHECK(first.block_sum_count == last.block_sum_count);
  CHECK(last.counted_block_sums < last.block_sum_count);
  Layout const layout{model_of({2, 3}).description(), 2};
  for (auto const flat : layout.flats().ids()) {
    CHECK(first.flats[flat].block_sums == last.flats[flat].block_sums);
    bool const counts = last.flats[flat].block_sums < last.counted_block_sums;
    CHECK(counts == (layout.flats()[flat].tensor_kind == TensorKind::cut));
  }
  CHECK(first.bytes == last.bytes);
}

}  // namespace zeroth::testing
