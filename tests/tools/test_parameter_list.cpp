// SPDX-License-Identifier: Apache-2.0
/// Models described as lists.
#include "source_support.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"

namespace zeroth::tools {
namespace {

using testing::operator""_param;
using testing::operator""_unit;

constexpr char const* small = R"({
  "context": 32,
  "units": [
    {"name": "embedding", "parameters": [{"name": "wte", "shape": [100, 8], "lookup": true},
                                         {"name": "frozen", "shape": [5], "trainable": false}]},
    {"name": "block", "attention_channels": 8, "input_channels": 6,
     "parameters": [{"name": "w", "shape": [8, 3, 4]}, {"name": "b", "shape": [8]}, {"name": "scalar", "shape": []}]},
    {"name": "head", "ties": ["wte"]}]})";

TEST_CASE("A list of parameters gives the model that it describes") {
  Files const files;
  auto const source = read(files.write("list.json", small));
  auto const& description = source.model.description();
  CHECK(source.context == 32);
  CHECK(unit_names(source) == std::vector<std::string>{"embedding", "block", "head"});
  CHECK(count_of(source) == 800 + 5 + 96 + 8 + 1);
  CHECK_FALSE(description.params[1_param].options.trainable);
  CHECK(description.params[0_param].options.trainable);
  CHECK(description.units[2_unit].ties == std::vector{0_param});
  CHECK(source.facts[0].matmul_count == 0);
  CHECK(source.facts[1].matmul_count == 96);
  CHECK(source.facts[1].attention_channels == 8);
  CHECK(source.model.description().units[id_at<UnitId>(1)].input_per_sample == 6 * *source.context);
  CHECK(source.facts[2].matmul_count == 800);
}

TEST_CASE("An invalid list is rejected with file, path, value and what is allowed") {
  Files const files;
  auto const refusal = [&](std::string const& text) { return refusal_of(files.write("list.json", text)); };
  CHECK(refusal(R"({"units": []})") ==
        "list.json: units is []; allowed: an array of at least one object, and nothing else");
  CHECK(refusal(R"({"units": [3]})") ==
        "list.json: units is [3]; allowed: an array of at least one object, and nothing else");
  CHECK(refusal(R"({"units": [{"parameters": [{"name": "w", "shape": [1]}]}]})") ==
        "list.json: units[0].name is missing; allowed: a string");
  CHECK(refusal(R"({"units": [{"name": "u"}]})") ==
        "list.json: units[0].parameters is missing; allowed: an array of objects");
  CHECK(
      refusal(
          R"({"units": [{"name": "u", "parameters": [{"name": "w", "shape": [1]}, {"name": "w", "shape": [1]}]}]})") ==
      "list.json: units[0].parameters[1].name is \"w\"; allowed: names that are not taken");
  CHECK(refusal(R"({"units": [{"name": "u", "parameters": [{"name": "w", "shape": [2, 0]}]}]})") ==
        "list.json: units[0].parameters[0].shape is [2, 0]; allowed: an array of extents, whole numbers of at least 1");
  CHECK(refusal(R"({"units": [{"name": "u", "parameters": [{"name": "w", "shape": 7}]}]})") ==
        "list.json: units[0].parameters[0].shape is 7; allowed: an array of extents, whole numbers of at least 1");
  CHECK(refusal(R"({"units": [{"name": "u", "parameters": [{"name": "w", "shape": [100000000, 100000000]}]}]})") ==
        "list.json: units[0].parameters[0].shape is [100000000, 100000000]; allowed: at most 10^15 elements");
  CHECK(refusal(R"({"units": [{"name": "u", "parameters": [{"name": "w", "shpe": [1]}]}]})") ==
        "list.json: units[0].parameters[0].shpe is an unknown key, with value [1]; did you mean shape? allowed: name, "
        "shape, trainable, lookup");
  CHECK(refusal(R"({"units": [{"name": "u", "ties": ["w"]}]})") ==
        "list.json: units[0].ties is [\"w\"]; allowed: names of earlier units' parameters of two dimensions or more, "
        "each once");
  CHECK(contains(refusal(R"({"units": [{"name": "u", "parameters": [{"name": "w", "shape": [1, 1]}]},
                                       {"name": "v", "ties": ["w", "w"]}]})"),
                 "list.json: units[1].ties is [\"w\", \"w\"]; allowed: "));
  CHECK(
      contains(refusal(R"({"units": [{"name": "u", "ties": ["w"], "parameters": [{"name": "w", "shape": [1, 1]}]}]})"),
               "list.json: units[0].ties is [\"w\"]; allowed: "));
}

TEST_CASE("The elements of a whole list are limited, too") {
  Files const files;
  CHECK(contains(
      refusal_of(files.write("list.json", R"({"units": [{"name": "u", "parameters": [
                   {"name": "a", "shape": [900000000000000]}, {"name": "b", "shape": [900000000000000]}]}]})")),
      "list.json: parameter \"b\" is 900000000000000 x 1; allowed: extents of at least 1, and 1e+15 elements"));
}

}  // namespace
}  // namespace zeroth::tools
