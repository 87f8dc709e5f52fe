// SPDX-License-Identifier: Apache-2.0
/// The source that a request selects.
#include <numeric>

#include "source_support.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::tools {
namespace {

SourcedModel equal(std::int64_t parameters, std::int64_t units) {
  return read_model({.model = {}, .parameters = parameters, .units = units});
}

TEST_CASE("A number of parameters is divided into equal units") {
  auto const source = equal(10, 3);
  CHECK(count_of(source) == 10);
  CHECK(count_of_unit(source, 0) == 4);
  CHECK(count_of_unit(source, 1) == 3);
  CHECK(count_of_unit(source, 2) == 3);
  CHECK(source.facts[0].forward_flops_per_token(99) == 8);
  CHECK(count_of(equal(largest_parameter_count, 7)) == largest_parameter_count);
  CHECK(equal(5, 5).model.description().units.size() == 5);
}

TEST_CASE("Invalid numbers of parameters and units are rejected") {
  auto const refusal = [](std::int64_t parameters, std::int64_t units) {
    return testing::thrown<ConfigError>([&] { return equal(parameters, units); });
  };
  CHECK(refusal(0, 1) == "--parameters 0: allowed: a whole number from 1 to 1e+15");
  CHECK(refusal(largest_parameter_count + 1, 1) ==
        "--parameters 1000000000000001: allowed: a whole number from 1 to 1e+15");
  CHECK(refusal(3, 4) == "--units 4 for 3 parameters: allowed: from 1 to 3");
  CHECK(refusal(3, 0) == "--units 0 for 3 parameters: allowed: from 1 to 3");
  CHECK(refusal(1'000'000, 10'001) == "--units 10001 for 1000000 parameters: allowed: from 1 to 10000");
}

TEST_CASE("A name that is neither preset nor file is rejected with the nearest preset") {
  CHECK(testing::thrown<ConfigError>([] { return read_model({.model = "7.4B"}); })
            .starts_with("--model 7.4B: there is no such file or folder, and no such preset; did you mean 7.5B? "
                         "presets: 124M, 355M, 774M, 1.5B, 2.7B, "));
  CHECK(testing::thrown<ConfigError>([] {
          return read_model({.model = "nowhere/config.json"});
        }).starts_with("--model nowhere/config.json: there is no such file or folder, and no such preset; presets: "));
}

TEST_CASE("A file that does not describe a model is rejected with the allowed kinds") {
  Files const files;
  CHECK(refusal_of(files.write("x.json", "{}")) ==
        "x.json: is not a description of a model; allowed: a Hugging Face config.json (which has model_type), a "
        "safetensors file, header or index, or a list of parameters (which has units)");
  CHECK(refusal_of(files.write("x.json", "[1, 2]")) == "x.json: 1 problem\n  holds an array; allowed: one JSON object");
  CHECK(contains(refusal_of(files.write("x.json", "{\"units\": ")),
                 "x.json: 1 problem\n  line 1, column 11: not valid JSON: "));
  CHECK(contains(refusal_of(files.write("x.bin", std::string("\0\1\2", 3))),
                 "x.bin: 1 problem\n  line 1, column 1: not valid JSON: a NUL byte"));
  Files const empty;
  CHECK(testing::thrown<ConfigError>([&] { return read(empty.path()); }) ==
        empty.path().string() + ": this folder has no config.json, model.safetensors.index.json or model.safetensors");
}

TEST_CASE("Heads are untied on request, if the model allows it") {
  auto const tied = read_model({.model = "124M"});
  auto const untied = read_model({.model = "124M", .context = 100, .untied_head = true});
  auto const& units = untied.model.description().units;
  CHECK(untied.model.description().count == tied.model.description().count + 50257 * 768);
  CHECK(units.back().ties.empty());
  CHECK(units.back().input_per_sample == 100 * 768);
  CHECK(units.front().input_per_sample == 0);
  CHECK(untied.context == 100);
  CHECK(untied.facts.back().matmul_count == tied.facts.back().matmul_count);
  CHECK(testing::thrown<ConfigError>([] {
          static_cast<void>(read_model({.model = {}, .parameters = 10, .units = 1, .untied_head = true}));
        }) == "--untied-head with --parameters: allowed with a preset, and with a Hugging Face config.json");
}

}  // namespace
}  // namespace zeroth::tools
