// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint inspect` and `verify` for checkpoints that are intact, damaged, incomplete and forged.
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/record_format.hpp"
#include "checkpoint_support.hpp"
#include "shown_support.hpp"
#include "zeroth/checkpoint/file_reader.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

Json json_of(std::string const& words, fs::path const& folder, int status = 0) {
  auto const result = zeroth_tool("checkpoint " + words + " --json", folder);
  INFO(words << "\n" << result.output);
  REQUIRE(result.status == status);
  return Json::parse(result.output);
}

/// Forges a record with a matching hash.
void write_record(fs::path const& checkpoint, std::string const& text) {
  auto const body = text.substr(0, text.rfind(",\n \"xxh3\""));
  write_file(checkpoint / "checkpoint.json", body + checkpoint::hash_line(body));
}

}  // namespace

TEST_CASE("docs/checkpoints.md shows the tool's output") {
  Folder const folder;
  save_run(folder / "saved", {.steps = 10});
  save_run(folder / "saved", {.world = 3, .steps = 10, .from = folder / "saved"});
  fs::create_directory(folder / "saved/step_00000030.00ff.partial");
  auto const shown = shown_in(document("docs/checkpoints.md"));
  CHECK(shown.size() >= 5);
  for (auto const& [command, output] : shown) {
    INFO("zeroth " << command);
    auto const result = zeroth_tool(command, folder.path());
    CHECK(result.status == (contains(output, "different: ") ? 1 : 0));
    CHECK(result.output == output);
  }
}

TEST_CASE("inspect prints what was saved, when, how large and by whom") {
  Folder const folder;
  auto const path = save_run(
      folder / "saved", {.world = 3, .stage = 3, .keys = R"(, "fp16": {"enabled": true, "initial_scale_power": 4})"});
  auto const text = zeroth_tool("checkpoint inspect saved/step_00000002 --parameters --stage-file", folder.path());
  INFO(text.output);
  CHECK(text.status == 0);
  for (auto const* const part :
       {"saved/step_00000002: step 2, saved 2026-01-31T23:59:59Z by Zeroth 0.1.0, process 4711 on node7",
        "500 samples, shuffled with seed 0", "16; 2 overflows would halve it", "AdamW",
        "master fp32, exp_avg fp32, exp_avg_sq fp32, frozen fp16", "3 files, written by 3 ranks",
        "2,272 parameters in 5 tensors; 128 in 1 frozen; 1 tensor used by several units", "[16, 64]",
        "trained, used by head too", "3 of initial values", "26 B", "zero_optimization.stage: 3 (file)"}) {
    CHECK_THAT(text.output, Contains(part));
  }
  auto const json = json_of("inspect saved/step_00000002 --stage-file", folder.path());
  CHECK(json["step"] == 2);
  CHECK(json["updates"] == 2);
  CHECK(json["samples"] == 2 * 2 * 3);
  CHECK(json["data_order"] == Json{{"samples", 500}, {"shuffled", true}, {"seed", 0}});
  CHECK(json["loss_scale"]["scale"] == 16);
  CHECK(json["compute"] == "fp16");
  CHECK(json["program_state_bytes"] == 26);
  CHECK(json["files"]["places"] == 3);
  CHECK(json["files"]["damaged"].empty());
  CHECK(json["stage_file"]["zero_optimization.stage"]["value"] == 3);
  CHECK(json["model"]["tied"] == Json{{"tensors", 1}, {"elements", 65 * 16}});
  std::int64_t bytes = 0;
  for (auto const& entry : fs::directory_iterator{path}) {
    bytes += entry.path().extension() == ".json" ? 0 : static_cast<std::int64_t>(entry.file_size());
  }
  CHECK(json["files"]["bytes"] == bytes);
  LanguageModel const small;
  auto const& params = small.model.description().params;
  REQUIRE(json["parameters"].size() == params.size());
  for (auto const& param : json["parameters"]) {
    auto const& expected = params[small.model.description().param_named.at(param["name"].get<std::string>())];
    CHECK(param["shape"].get<std::vector<std::int64_t>>() == expected.shape);
    CHECK(param["trainable"] == expected.options.trainable);
    bool const is_tied = param["name"] == "wte.weight";  // its tie makes it a flat unit of its own
    CHECK(param["unit"] == (is_tied ? expected.name : small.model.description().units[expected.owner].name));
    CHECK(param["ties"] == (is_tied ? Json{"head"} : Json::array()));
  }
}

TEST_CASE("inspect of a folder shows complete, damaged and partial checkpoints, and the latest") {
  Folder const folder;
  for (int i = 0; i < 3; ++i) {
    save_run(folder / "saved", {.steps = 2, .from = i == 0 ? fs::path{} : folder / "saved"});
  }
  auto const condition_of = [&](std::string const& name) -> Json {
    auto const all = json_of("inspect saved", folder.path());
    for (auto const& each : all["checkpoints"]) {
      if (each["name"] == name) {
        return each;
      }
    }
    return nullptr;
  };
  CHECK(condition_of("step_00000002")["condition"] == "complete");
  CHECK(condition_of("step_00000002")["step"] == 2);
  fs::remove(folder / "saved/step_00000002/place_00001.safetensors");
  fs::create_directory(folder / "saved/step_00000008.00ff.partial");
  fs::create_directory(folder / "saved/step_00000001.00ff.deleting");
  fs::create_directory(folder / "saved/other");
  write_file(folder / "saved/step_00000004/checkpoint.json", "{}");
  CHECK(condition_of("step_00000002")["condition"] == "damaged");
  CHECK_THAT(condition_of("step_00000002")["why"].get<std::string>(),
             Contains("place_00001.safetensors: cannot be opened: No such file or directory"));
  CHECK_THAT(condition_of("step_00000004")["why"].get<std::string>(), Contains("checkpoint.json: is damaged"));
  CHECK(condition_of("step_00000006")["condition"] == "complete");
  CHECK(condition_of("step_00000008.00ff.partial")["condition"] == "partial");
  CHECK(condition_of("step_00000001.00ff.deleting")["condition"] == "deleting");
  CHECK(condition_of("other").is_null());
  CHECK(json_of("inspect saved", folder.path())["latest"] == "step_00000006");
  CHECK_THAT(zeroth_tool("checkpoint inspect saved", folder.path()).output,
             Contains("step_00000006 *") && Contains("* what latest names"));
  fs::remove_all(folder / "saved/step_00000006");
  CHECK_THAT(zeroth_tool("checkpoint inspect saved", folder.path()).output,
             Contains("latest names \"step_00000006\", which is not here"));
  fs::create_directory(folder / "empty");
  check_failed("checkpoint inspect empty", "checkpoint empty: has neither checkpoint.json nor latest", folder.path());
  check_failed("checkpoint inspect nowhere", "checkpoint", folder.path());
  check_failed("checkpoint verify nowhere", "checkpoint nowhere: there is no such folder", folder.path());
}

TEST_CASE("verify names exactly the bytes that were changed") {
  Folder const folder;
  auto const path = save_run(folder / "saved", {.world = 2});
  auto const place = path / "place_00001.safetensors";
  auto const good = read_file(place);
  CHECK_THAT(zeroth_tool("checkpoint verify saved", folder.path()).output,
             Contains("whole: saved/step_00000002: step 2, 2 files"));
  auto const contents = checkpoint::read_record(path).contents;
  auto const data = good.size() - 8 - static_cast<std::size_t>(contents.state_bytes(1));
  auto const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  for (int round = 0; round < 20; ++round) {  // a byte of header, data, or table of hashes
    auto const at = std::uniform_int_distribution<std::size_t>{1, good.size()}(random);
    flip(place, at);
    auto const json = json_of("verify saved", folder.path(), 1);
    INFO("byte " << good.size() - at << " of " << good.size());
    CHECK(json["whole"] == false);
    REQUIRE(json["damaged"].size() == 1);
    CHECK(json["damaged"][0]["file"] == "place_00001.safetensors");
    auto const& damage = json["damaged"][0]["damage"];
    REQUIRE(damage.size() == 1);
    if (good.size() - at >= data) {
      CHECK(damage[0]["begin"] == data);
      CHECK(damage[0]["end"] == good.size() - 8);
      CHECK(damage[0]["elements_of"].size() > 5);
    } else {
      CHECK_THAT(damage[0]["why"].get<std::string>(), Contains("header") || Contains("another save"));
    }
    write_file(place, good);
  }
  flip(place, 9);
  auto const text = zeroth_tool("checkpoint verify saved", folder.path());
  CHECK(text.status == 1);
  CHECK_THAT(text.output, Contains("damaged: saved/step_00000002: step 2, 1 of 2 files") &&
                              Contains(fmt::format("bytes {} to {}: is damaged", data, good.size() - 8)) &&
                              Contains("exp_avg of \"h.0.mlp.weight\": elements ") &&
                              Contains("master of \"h.0.mlp.bias\": elements 0 to 64"));
  write_file(place, good + "more");
  CHECK_THAT(zeroth_tool("checkpoint verify saved", folder.path()).output, Contains("but this checkpoint needs"));
  fs::remove(place);
  flip(path / "place_00000.safetensors", 9);
  auto const both = json_of("verify saved", folder.path(), 1);
  CHECK(both["damaged"].size() == 2);
  write_file(path / "checkpoint.json", "{}");
  CHECK_THAT(json_of("verify saved", folder.path(), 1)["why"].get<std::string>(), Contains("checkpoint.json"));
}

TEST_CASE("damage in a large file is reported per MiB, and the rest stays valid") {
  Folder const folder;
  auto const outcome = run_job(2, [&](Job& job) {
    Model model{1};
    static_cast<void>(model.param(model.unit("large"), "w", {2'500'000}, Constant{1}));  // 3 states of 4.8 MiB per rank
    Engine<float> engine{job, model, small_config(2)};
    engine.save(folder.path()).wait();
  });
  REQUIRE(messages_of(outcome) == "");
  auto const path = folder / "step_00000000";
  auto const place = path / "place_00001.safetensors";
  auto bytes = read_file(place);
  auto const data =
      bytes.size() - 15 * 8 - static_cast<std::size_t>(checkpoint::read_record(path).contents.state_bytes(1));
  for (auto const mib : {2, 3, 7}) {  // the first two are adjacent, and the third contains two states
    bytes[data + (static_cast<std::size_t>(mib) << 20U) + 77] ^= 1;
  }
  write_file(place, bytes);
  auto const damage = json_of("verify " + path.string(), folder.path(), 1)["damaged"][0]["damage"];
  REQUIRE(damage.size() == 2);
  CHECK(damage[0]["begin"] == data + (2U << 20U));
  CHECK(damage[0]["end"] == data + (4U << 20U));
  CHECK(damage[0]["elements_of"].size() == 1);
  auto const slice = checkpoint::read_record(path).contents.spaces.front().slice_count;
  CHECK(damage[0]["elements_of"][0] ==
        Json{{"state", "master"}, {"parameter", "w"}, {"first", slice + (2 << 18)}, {"end", slice + (4 << 18)}});
  CHECK(damage[1]["elements_of"][0]["state"] == "exp_avg");

  std::int64_t told = 0;
  int calls = 0;
  checkpoint::Reader reader{path};
  auto const found = reader.damage(1, true, [&](std::int64_t read) {
    told += read;
    ++calls;
  });
  CHECK(found.size() == 2);
  CHECK(told == reader.record().contents.state_bytes(1));
  CHECK(calls == 2);  // 8 MiB, and the rest of 14.3
}

TEST_CASE("forged checkpoints cannot control a terminal or touch other files, and end with a message") {
  Folder const folder;
  auto const path = save_run(folder / "saved", {});
  auto const good = read_file(path / "checkpoint.json");
  auto const forged = [&](std::string const& part, std::string const& by) {
    auto text = good;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + by.size())) {
      text.replace(at, part.size(), by);
    }
    REQUIRE(text != good);
    write_record(path, text);
  };
  auto const is_safe = [](std::string const& text) {
    return std::ranges::all_of(text, [](char c) { return (c >= ' ' && c < '\x7f') || c == '\n'; });
  };
  std::string const evil = R"(\u001b]0;evil\u0007\u009b2J\u202e)";
  for (auto const* const part :
       {"wte.weight", "node7", "AdamW", "0.1.0", "2026-01-31T23:59:59Z", "head", "exp_avg_sq"}) {
    forged(part, evil);
    INFO(part);
    for (std::string const words :
         {"inspect saved/step_00000002 --parameters --stage-file", "inspect saved",
          "inspect saved/step_00000002 --json --stage-file", "verify saved", "verify saved --json", "diff saved saved",
          "export saved out --max-shard-bytes 1KB"}) {
      auto const result = zeroth_tool("checkpoint " + words, folder.path());
      INFO(words << "\n" << result.output);
      CHECK(result.status <= 2);
      CHECK(is_safe(result.output));
    }
    fs::remove_all(folder / "out");
  }
  // A parameter's name is never used as a path.
  auto const text = good;
  forged("wte.weight", "../../../../tmp/evil");
  CHECK(zeroth_tool("checkpoint export saved out --max-shard-bytes 1KB", folder.path()).status == 1);  // headers differ
  CHECK(folder.contents() == "saved ");
  // A record that claims many files, of which two exist.
  forged("\"places\":2", "\"places\":16777216");
  for (auto const* const words : {"inspect saved/step_00000002", "verify saved", "export saved out"}) {
    auto const result = zeroth_tool(std::string{"checkpoint "} + words, folder.path());
    INFO(words << result.output.substr(0, 1000));
    CHECK(result.status <= 1);
    CHECK(result.output.size() < 300'000);
  }
  CHECK(folder.contents() == "saved ");
}

}  // namespace zeroth::testing
