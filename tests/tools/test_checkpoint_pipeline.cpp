// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint` on checkpoints of pipelines.
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/pipeline_runs.hpp"
#include "checkpoint_support.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Trains two steps, then saves a checkpoint and the weights; or saves the states of `from` with another shape.
void save_chain(fs::path const& folder, Shape const& shape, fs::path const& from = {}) {
  ChainRun run;
  run.options.steps = from.empty() ? 2 : 0;
  save_in(run, folder, from);
  train_chains(config_of(fp32_types, shape), shape, run);
}

}  // namespace

TEST_CASE("inspect, verify, diff and export handle checkpoints of pipelines") {
  Folder const folder;
  auto const tool = [&](std::string const& words) { return zeroth_tool("checkpoint " + words, folder.path()); };
  save_chain(folder / "pipeline", {.stages = 3, .data = 2, .zero = 3});
  save_chain(folder / "other", {.stages = 1, .data = 2, .zero = 1}, folder / "pipeline");

  auto const text = tool("inspect pipeline/step_00000002 --parameters");
  CHECK(text.status == 0);
  CHECK_THAT(text.output, Contains("6 files, written by 6 ranks in 3 stages of a pipeline; ") &&
                              Contains("trained, used by tied too") && Contains("1,108 parameters in 13 tensors"));
  CHECK_THAT(tool("inspect other/step_00000002").output, Contains("2 files, written by 2 ranks; "));
  auto const json = Json::parse(tool("inspect pipeline/step_00000002 --json").output);
  CHECK(json["files"]["places"] == 6);
  CHECK(json["files"]["stages"] == 3);
  CHECK(json["files"]["damaged"].empty());

  CHECK_THAT(tool("verify pipeline").output, Contains("whole: pipeline/step_00000002: step 2, 6 files"));
  auto const same = tool("diff pipeline other");
  INFO(same.output);
  CHECK(same.status == 0);
  CHECK_THAT(same.output, Contains("same: "));

  auto const exported = tool("export pipeline exported.safetensors");
  INFO(exported.output);
  CHECK(exported.status == 0);
  CHECK(tool("export other one.safetensors").status == 0);
  CHECK(read_file(folder / "pipeline/weights.safetensors") == read_file(folder / "other/weights.safetensors"));
  auto const by_name = [&](char const* file) {
    auto const parsed = SafetensorsFile::parse(read_file(folder / file));
    std::map<std::string, std::string> tensors;
    for (auto const& [name, entry] : parsed.header.items()) {
      if (name != "__metadata__") {
        auto const begin = entry.at("data_offsets").at(0).get<std::size_t>();
        auto const end = entry.at("data_offsets").at(1).get<std::size_t>();
        tensors[name] = entry.at("shape").dump() + parsed.data.substr(begin, end - begin);
      }
    }
    return tensors;
  };
  auto const expected = by_name("pipeline/weights.safetensors");
  CHECK(expected.size() == 13);
  CHECK(by_name("exported.safetensors") == expected);
  CHECK(by_name("one.safetensors") == expected);

  flip(folder / "pipeline/step_00000002/place_00004.safetensors", 200);
  auto const damaged = tool("verify pipeline");
  CHECK(damaged.status == 1);
  CHECK_THAT(damaged.output, Contains("1 of 6 files") && Contains("place_00004.safetensors: bytes "));
}

}  // namespace zeroth::testing
