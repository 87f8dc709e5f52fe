// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint` on checkpoints of tensor ranks: it shows whole parameters.
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/tensor_runs.hpp"
#include "checkpoint_support.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Trains two steps, then saves a checkpoint and the weights; or saves the states of `from` with another grid.
void save_grid(fs::path const& folder, Grid const& grid, fs::path const& from = {}) {
  DividedOptions options;
  options.steps = from.empty() ? 2 : 0;
  save_in(options, folder, from);
  train_grid(config_of(fp32_types, grid), grid, options);
}

/// Shapes and bytes of the tensors of a file, by name.
std::map<std::string, std::string> tensors_of(fs::path const& file) {
  auto const parsed = SafetensorsFile::parse(read_file(file));
  std::map<std::string, std::string> tensors;
  for (auto const& [name, entry] : parsed.header.items()) {
    if (name != "__metadata__") {
      auto const begin = entry.at("data_offsets").at(0).get<std::size_t>();
      auto const end = entry.at("data_offsets").at(1).get<std::size_t>();
      tensors[name] = entry.at("shape").dump() + parsed.data.substr(begin, end - begin);
    }
  }
  return tensors;
}

}  // namespace

TEST_CASE("inspect, verify, diff and export show whole parameters of checkpoints of tensor ranks") {
  Folder const folder;
  auto const tool = [&](std::string const& words) { return zeroth_tool("checkpoint " + words, folder.path()); };
  save_grid(folder / "cut", {.pipeline = 2, .data = 2, .tensor = 2, .zero = 3});
  save_grid(folder / "other", {.pipeline = 1, .data = 1, .tensor = 4, .zero = 1}, folder / "cut");
  save_grid(folder / "whole", {.pipeline = 1, .data = 2, .tensor = 1, .zero = 2}, folder / "cut");

  auto const text = tool("inspect cut/step_00000002 --parameters");
  CHECK(text.status == 0);
  CHECK_THAT(text.output, Contains("8 files, written by 8 ranks in 2 stages of a pipeline with 2 tensor ranks; ") &&
                              Contains("1,128 parameters in 16 tensors") && Contains("trained, cut along dimension 1"));
  auto const by_four = tool("inspect other/step_00000002 --parameters").output;
  CHECK_THAT(by_four, Contains("4 files, written by 4 ranks with 4 tensor ranks; ") &&
                          Contains("1,128 parameters in 16 tensors"));
  CHECK_THAT(tool("inspect whole/step_00000002").output, Contains("2 files, written by 2 ranks; "));
  auto const json = Json::parse(tool("inspect cut/step_00000002 --json").output);
  CHECK(json["files"]["places"] == 8);
  CHECK(json["files"]["stages"] == 2);
  CHECK(json["files"]["tensor_ranks"] == 2);
  CHECK(json["files"]["damaged"].empty());
  CHECK(json["parameters"].size() == 16);
  for (auto const& param : json["parameters"]) {
    if (param["name"] == "table") {
      CHECK(param["shape"] == Json{8, 18});
      CHECK(param["elements"] == 8 * 18);
      CHECK(param["cut"] == Json{{"dim", 1}, {"sections", Json::array()}, {"multiple", 4}, {"of", 2}});
    }
    if (param["name"] == "block0.gain") {
      CHECK(param["cut"].is_null());
    }
  }

  CHECK_THAT(tool("verify cut").output, Contains("whole: cut/step_00000002: step 2, 8 files"));
  for (auto const* const pair : {"diff cut other", "diff cut whole", "diff whole other"}) {
    auto const same = tool(pair);
    INFO(pair << ": " << same.output);
    CHECK(same.status == 0);
    CHECK_THAT(same.output, Contains("same: "));
  }

  auto const expected = tensors_of(folder / "cut/weights.safetensors");
  CHECK(expected.size() == 16);
  for (std::string const from : {"cut", "other", "whole"}) {
    auto const exported = tool("export " + from + " " + from + ".safetensors");
    INFO(exported.output);
    CHECK(exported.status == 0);
    CHECK_THAT(exported.output, Contains("1,128 parameters in 16 tensors"));
    CHECK(tensors_of(folder / (from + ".safetensors")) == expected);
  }

  flip(folder / "cut/step_00000002/place_00003.safetensors", 200);  // belongs to stage 0, part 1
  auto const damaged = tool("verify cut");
  CHECK(damaged.status == 1);
  CHECK_THAT(damaged.output,
             Contains("1 of 8 files") && Contains("place_00003.safetensors: bytes ") && Contains(" of part 1 of 2"));
  CHECK_THAT(tool("verify cut --json").output, Contains("\"part\""));
}

TEST_CASE("diff shows which element of a whole parameter differs") {
  Folder const folder;
  auto const tool = [&](std::string const& words) { return zeroth_tool("checkpoint " + words, folder.path()); };
  auto const saves = [&](char const* name, Grid const& grid, float at_end) {
    auto const outcome = run_job(grid.world(), [&](Job& job) {
      auto const config = config_of(fp32_types, grid);
      Mesh mesh{job, config};
      Divided const divided{mesh.tensor_part(), false};
      Engine<float> engine{mesh, divided.model, config};
      std::vector<float> values(8 * 24, 1.0F);
      values[190] = at_end;
      engine.write(divided.blocks[0].first, values);
      engine.save(folder / name).wait();
    });
    REQUIRE(messages_of(outcome) == "");
  };
  saves("two", {.tensor = 2}, 1);
  saves("three", {.tensor = 3}, 1.5F);
  auto const different = tool("diff two three");
  CHECK(different.status == 1);
  CHECK_THAT(different.output,
             Contains("different: ") && Contains("master of block0.first") && Contains("190") && Contains("0.5"));
}

}  // namespace zeroth::testing
