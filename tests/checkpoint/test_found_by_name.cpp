// SPDX-License-Identifier: Apache-2.0
/// The index of a checkpoint's parameters by name.
#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "zeroth/checkpoint/contents.hpp"

namespace zeroth::checkpoint {
namespace {

SavedParam part(std::string name, int index, int of) {
  SavedParam param;
  param.name = std::move(name);
  param.shape = {8};
  param.count = 8 / of;
  if (of > 1) {
    param.cut.emplace();
    param.cut->part = {index, of};
  }
  return param;
}

std::vector<std::pair<std::size_t, std::size_t>> positions(std::span<Found const> parts) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (auto const& each : parts) {
    all.emplace_back(each.space, each.param);
  }
  return all;
}

using Positions = std::vector<std::pair<std::size_t, std::size_t>>;

TEST_CASE("an index of nothing finds nothing") {
  CHECK(FoundByName{}.find("a").empty());
  CHECK(Contents{}.by_name().find("").empty());
  CHECK(Contents{}.by_name().size() == 0);
}

TEST_CASE("parameters are found by name, in the order of spaces, and parts in their own order") {
  Contents contents;
  contents.spaces.resize(3);
  contents.spaces[0].params = {part("cut", 2, 3), part("whole", 0, 1)};
  contents.spaces[1].params = {part("cut", 0, 3), part("other", 0, 1)};
  contents.spaces[2].params = {part("cut", 1, 3)};
  auto index = contents.by_name();
  auto const found = std::move(index);  // what it returned before stays valid
  CHECK(positions(found.find("cut")) == Positions{{1, 0}, {2, 0}, {0, 0}});
  CHECK(positions(found.find("whole")) == Positions{{0, 1}});
  CHECK(positions(found.find("other")) == Positions{{1, 1}});
  CHECK(found.find("cu").empty());
  CHECK(found.find("").empty());
  std::string names;
  for (auto const& [name, parts] : found) {
    names += fmt::format("{} {}, ", name, parts.size());
  }
  CHECK(names == "cut 3, whole 1, other 1, ");
}

TEST_CASE("many names are all found, and no others") {
  constexpr int count = 50'000;
  Contents contents;
  contents.spaces.resize(7);
  for (int i = 0; i < count; ++i) {
    contents.spaces[static_cast<std::size_t>(i % 7)].params.push_back(part(fmt::format("layer.{}.weight", i), 0, 1));
  }
  auto const found = contents.by_name();
  CHECK(found.size() == count);
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    Positions const expected{{static_cast<std::size_t>(i % 7), static_cast<std::size_t>(i / 7)}};
    wrong += positions(found.find(fmt::format("layer.{}.weight", i))) == expected ? 0 : 1;
    wrong += found.find(fmt::format("layer.{}.weights", i)).empty() ? 0 : 1;
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace zeroth::checkpoint
