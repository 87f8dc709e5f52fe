// SPDX-License-Identifier: Apache-2.0
/// Malicious models: deeply nested, endless, with huge numbers of names, or not files.
#include <fmt/format.h>
#include <sys/stat.h>

#include "source_support.hpp"
#include "support/catch.hpp"

namespace zeroth::tools {
namespace {

std::string repeated(std::string const& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) {
    text += piece;
  }
  return text;
}

TEST_CASE("Deep nesting is rejected in every kind of file") {
  Files const files;
  for (char const* const begin :
       {"", "{\"units\": ", "{\"model_type\": ", "{\"weight_map\": ", "{\"w\": {\"shape\": "}) {
    for (char const* const open : {"[", "{\"a\": "}) {
      INFO(begin << open);
      CHECK(contains(refusal_of(files.write("deep.json", begin + repeated(open, 200'000))),
                     "not valid JSON: nested deeper than 32 levels"));
    }
  }
}

TEST_CASE("Units of 50,000 parameters, and of 50,000 tensors of an index, are read") {
  Files const files;
  std::string parameters;
  std::string header;
  std::string index;
  constexpr int count = 50'000;
  for (int i = 0; i < count; ++i) {
    auto const* const comma = i == 0 ? "" : ", ";
    parameters += fmt::format(R"({}{{"name": "w{}", "shape": [2, 2]}})", comma, i);
    header += fmt::format(R"({}"w{}": {{"dtype": "F32", "shape": [1], "data_offsets": [{}, {}]}})", comma, i, 4 * i,
                          4 * i + 4);
    index += fmt::format(R"({}"w{}": "header.safetensors")", comma, i);
  }
  header = "{" + header + "}";
  CHECK(count_of(read(files.write("list.json", R"({"units": [{"name": "u", "parameters": [)" + parameters + "]}]}"))) ==
        4 * count);
  CHECK(count_of(read(files.write("header.json", header))) == count);
  std::string length(8, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(header.size() >> (8 * i));
  }
  files.write("header.safetensors", length + header);
  CHECK(count_of(read(files.write("index.json", R"({"weight_map": {)" + index + "}}"))) == count);
}

TEST_CASE("Duplicate keys, text after the end, and invalid UTF-8 are rejected by name") {
  Files const files;
  auto const refusal = [&](std::string const& text) { return refusal_of(files.write("m.json", text)); };
  CHECK(refusal(R"({"units": [], "units": []})") ==
        "m.json: 1 problem\n  units (line 1): given twice, first on line 1");
  CHECK(contains(refusal(R"({"units": []} {})"), "m.json: 1 problem\n  line 1, column 15: not valid JSON"));
  CHECK(refusal(std::string("{\"units\": []}\0{", 15)) ==
        "m.json: 1 problem\n  line 1, column 14: not valid JSON: a NUL byte");
  CHECK(contains(refusal("{\"units\xff\": []}"), "m.json: 1 problem\n  line 1, column 8: not valid JSON"));
  CHECK(contains(refusal("{\"units\": 1e999}"), "m.json: 1 problem\n  line 1, column "));
  CHECK(contains(refusal("{\"units\": [] /* no comments */}"), "m.json: 1 problem\n"));
  CHECK(refusal("{\"units\": [], \"\\u001b[2J\": \"\\u202e\"}") ==
        "m.json: \"\\x1b[2J\" is an unknown key, with value \"\\xe2\\x80\\xae\"; allowed: units, context");
}

TEST_CASE("Names with control characters are rejected") {
  Files const files;
  CHECK(refusal_of(files.write("m.json",
                               "{\"units\": [{\"name\": \"a\\u001b\", \"parameters\": "
                               "[{\"name\": \"w\", \"shape\": [1]}]}]}")) ==
        "m.json: unit name \"a\\x1b\" is not allowed");
  CHECK(refusal_of(files.write("m.json",
                               "{\"w\\u202e\": {\"dtype\": \"F32\", \"shape\": [1], "
                               "\"data_offsets\": [0, 4]}}")) ==
        "m.json: parameter name \"w\\xe2\\x80\\xae\" is not allowed");
}

TEST_CASE("Pipes and devices are rejected as models, also if an index names them") {
  Files const files;
  auto const pipe = files.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal_of(pipe) == "pipe: is a pipe; allowed: a regular file");
  CHECK(testing::thrown<ConfigError>([] { return read("/dev/zero"); }) ==
        "/dev/zero: is a device; allowed: a regular file");
  CHECK(refusal_of(files.write("index.json", R"({"weight_map": {"w": "pipe"}})")) ==
        "pipe: is a pipe; allowed: a regular file");
  CHECK(refusal_of(files.write("index.json", "{\"weight_map\": {\"w\": \"a\\u001b\"}}")) ==
        "index.json: weight_map is {\"w\": \"a\\x1b\"}; allowed: an object from names of tensors to names of files");
}

}  // namespace
}  // namespace zeroth::tools
