// SPDX-License-Identifier: Apache-2.0
/// The program `zeroth config`: its exit status, and its output for one file and for several, as text and JSON.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "program_support.hpp"
#include "support/folder.hpp"
#include "support/odd_streams.hpp"

namespace zeroth::testing {
namespace {

constexpr char const* complete = R"({
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
  "steps_per_print": 5, "zero_optimization": {"stage": 2, "allgather_bucket_size": 2e8}, "my_key": 1
})";
constexpr char const* automatic = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}
})";
constexpr char const* wrong = R"({"train_batch_size": 8, "zero_optimization": {"stage": 4}, "gradient_cliping": 1})";
constexpr char const* values = R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
                                   "optimizer": {"type": "SGD", "params": {"lr": 0.5}}})";

struct Files {
  Folder folder;
  Files() {
    write("complete.json", complete);
    write("auto.json", automatic);
    write("wrong.json", wrong);
    write("values.json", values);
  }
  void write(char const* name, char const* text) const { std::ofstream{folder / name} << text; }
  [[nodiscard]] ToolResult config(std::string const& words) const {
    return zeroth_tool("config " + words, folder.path());
  }
  [[nodiscard]] nlohmann::json json(std::string const& words) const {
    auto const result = config("--json " + words);
    INFO(result.output);
    auto parsed = nlohmann::json::parse(result.output);
    parsed.push_back(result.status);
    return parsed;
  }
};

TEST_CASE("zeroth config returns 0 if a job could start, 1 for a rejected file, 3 for open values") {
  Files const files;
  auto const starts = files.config("complete.json");
  CHECK(starts.status == 0);
  CHECK(starts.output.starts_with("complete.json: 8 ranks could start: "));
  CHECK(contains(starts.output, "8 ranks could start: 64 samples an update = 4 x 2 accumulated x 8 ranks"));
  CHECK(contains(starts.output,
                 "zero_optimization.allgather_bucket_size (line 3): 2e8: units are gathered one at a time"));
  CHECK(contains(starts.output, "my_key (line 3): unknown key"));
  auto const open = files.config("auto.json");
  CHECK(open.status == 3);
  CHECK(open.output.starts_with("auto.json: open, to be given by the program, --given or --set:\n"));
  CHECK(contains(open.output, "  optimizer.params.lr (line 4): "));
  auto const refused = files.config("wrong.json");
  CHECK(refused.status == 1);
  CHECK(refused.output.starts_with("wrong.json: 2 problems\n  "));
  CHECK(contains(refused.output, "did you mean gradient_clipping"));
  CHECK(files.config("missing.json").status == 1);
  CHECK(files.config("").status == 2);
  CHECK(files.config("complete.json --ranks 0").status == 2);
}

TEST_CASE("zeroth config fills open values from --given, and overrides the file with --set") {
  Files const files;
  auto const given = files.config("auto.json --given values.json --ranks 4");
  CHECK(given.status == 0);
  CHECK(contains(given.output, "4 ranks could start: 8 samples an update"));
  CHECK(contains(given.output, "(given)"));
  CHECK(contains(given.output, "= \"AdamW\""));  // from the file
  auto const set = files.config("complete.json --set zero_optimization.stage=1 --set optimizer.type=SGD --ranks 8");
  CHECK(set.status == 0);
  CHECK(contains(set.output, "= \"SGD\""));
  CHECK(contains(set.output, "(set)"));
  CHECK(files.config("complete.json --ranks 3").status == 1);
  CHECK(files.config("complete.json --set stage").status == 1);
  CHECK(contains(files.config("auto.json --given missing.json").output, "--given missing.json"));
  CHECK(files.config("auto.json --given wrong.json").status == 1);
}

TEST_CASE("zeroth config has a line for each of several files, and the worst status") {
  Files const files;
  auto const several = files.config("complete.json auto.json");
  CHECK(several.status == 3);
  CHECK(contains(several.output, "complete.json: 8 ranks could start (3 noted)\n"));
  CHECK(
      contains(several.output, "auto.json: open: train_micro_batch_size_per_gpu, bf16.enabled, optimizer.params.lr\n"));
  auto const with_wrong = files.config("auto.json wrong.json complete.json");
  CHECK(with_wrong.status == 1);
  CHECK(contains(with_wrong.output, "wrong.json: refused: "));
  CHECK(contains(with_wrong.output, " (and 1 more)\n"));
}

TEST_CASE("zeroth config --quiet prints nothing of files that a job could start with") {
  Files const files;
  auto const fine = files.config("--quiet complete.json");
  CHECK(fine.status == 0);
  CHECK(fine.output.empty());
  auto const several = files.config("-q complete.json auto.json wrong.json");
  CHECK(several.status == 1);
  CHECK(several.output.starts_with("auto.json: open: "));
  CHECK(contains(several.output, "\nwrong.json: refused: "));
  CHECK_FALSE(contains(several.output, "complete.json"));
  CHECK(files.config("--quiet --json complete.json").status == 2);
}

TEST_CASE("- means standard input, and may be given once") {
  Files const files;
  auto const with_input = [&](std::string const& words, std::string const& input) {
    Child child{
        redirected({.command = {ZEROTH_TOOL}, .folder = files.folder.path(), .environment = {}}, words + " <" + input)};
    auto const ending = child.wait();
    return ToolResult{ending.status, child.output()};
  };
  auto const starts = with_input("config -", "complete.json");
  CHECK(starts.status == 0);
  CHECK(starts.output.starts_with("standard input: 8 ranks could start: "));
  auto const several = with_input("config complete.json -", "wrong.json");
  CHECK(several.status == 1);
  CHECK(contains(several.output, "\nstandard input: refused: train_batch_size") !=
        contains(several.output, "\nstandard input: refused: zero_optimization.stage"));
  auto const refused = with_input("config -", "wrong.json");
  CHECK(refused.status == 1);
  CHECK(refused.output.starts_with("standard input: 2 problems\n"));
  CHECK(with_input("config auto.json --given - --ranks 4", "values.json").status == 0);
  CHECK(with_input("config - --ranks 3", "complete.json").output.starts_with("standard input: 1 problem\n"));
  auto const plan = with_input("plan --model 124M --ranks 8 --config -", "complete.json");
  CHECK(plan.status == 0);
  CHECK(contains(plan.output, "8 ranks; standard input: stage 2"));
  CHECK(with_input("simulate --model 124M --ranks 8 --config -", "complete.json").status == 0);
  files.write("model.json", R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 32,
                                "vocab_size": 100})");
  CHECK(with_input("plan --model - --ranks 8", "model.json").status == 0);
  auto const no_model = with_input("plan --model - --ranks 8", "complete.json");
  CHECK(no_model.status == 1);
  CHECK(contains(no_model.output, "zeroth: standard input: is not a description of a model"));
  auto const twice = with_input("config - --given -", "complete.json");
  CHECK(twice.status == 1);
  CHECK(contains(twice.output, "config -: standard input was read for --given already; allowed: one of them"));
}

TEST_CASE("zeroth config --diff names the values in which two files differ") {
  Files const files;
  files.write("other.json", R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
    "steps_per_print": 5, "zero_optimization": {"stage": 3}})");
  auto const same = files.config("--diff complete.json complete.json");
  CHECK(same.status == 0);
  CHECK(contains(same.output, "have the same values"));
  auto const differs = files.config("--diff complete.json other.json");
  CHECK(differs.status == 1);
  CHECK(contains(differs.output, "\n  zero_optimization.stage: 2, 3\n"));
  CHECK(contains(differs.output, "\n  zero_optimization.overlap_comm: false (derived"));  // which follows from it
  CHECK_FALSE(contains(differs.output, "train_batch_size"));
  CHECK(files.config("--diff complete.json other.json --set zero_optimization.stage=1").status == 0);
  auto const json = nlohmann::json::parse(files.config("--diff --json complete.json other.json").output);
  CHECK(json["files"] == nlohmann::json{"complete.json", "other.json"});
  auto const stage =
      nlohmann::json{{"path", "zero_optimization.stage"}, {"values", {"2", "3"}}, {"origins", {"file", "file"}}};
  CHECK(std::ranges::find(json["differences"], stage) != json["differences"].end());
  auto const refused = files.config("--diff complete.json wrong.json");
  CHECK(refused.status == 2);
  CHECK(contains(refused.output, "wrong.json: 2 problems"));
  CHECK(files.config("--diff complete.json").status == 2);
  CHECK(files.config("--diff --quiet complete.json other.json").status == 2);
  CHECK(files.config("--diff --write new.json").status == 2);
  CHECK(files.config("--write new.json --ranks 4").status == 2);
  CHECK(files.config("--write new.json complete.json").status == 2);
}

TEST_CASE("zeroth config --json prints JSON") {
  Files const files;
  auto const one = nlohmann::json::parse(files.config("--json complete.json").output);
  CHECK(one["status"] == "could start");
  CHECK(one["ranks"] == 8);
  CHECK(one["batch"] == nlohmann::json{{"train", 64}, {"micro", 4}, {"accumulation", 2}});
  CHECK(one["problems"].empty());
  REQUIRE(one["notes"].size() == 3);
  CHECK(one["notes"][0]["kind"] == "without effect");
  CHECK(one["notes"][0]["path"] == "zero_optimization.allgather_bucket_size");
  CHECK(one["notes"][0]["line"] == 3);
  CHECK(one["notes"][1]["kind"] == "unknown");
  CHECK(one["notes"][2]["kind"] == "assumed");
  CHECK(one["notes"][2]["path"] == "optimizer.type");
  CHECK(one["values"]["zero_optimization.stage"]["origin"] == "file");
  auto const several = files.json("auto.json wrong.json");
  REQUIRE(several.size() == 3);
  CHECK(several[0]["status"] == "open");
  CHECK(several[0]["open"].size() == 3);
  CHECK(several[1]["status"] == "refused");
  CHECK(several[1]["problems"].size() == 3);  // includes the summary line
  CHECK(several[2] == 1);
}

}  // namespace
}  // namespace zeroth::testing
