// SPDX-License-Identifier: Apache-2.0
/// Files that people have written for DeepSpeed, and the expected result of each: stage_files.jsonl. A line has the
/// source of the file, its keys and values, DeepSpeed 0.19.8's result ("loads", "refuses", or "late error" in what it
/// builds from the file), the number of ranks at which its numbers agree, and two lists of paths: keys without effect
/// here or unknown, and rejected keys. Values that a file leaves open are those of `given_values`.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "config/config_support.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

using Line = nlohmann::ordered_json;  // notes are in the order of the file
using Paths = std::vector<std::string>;

constexpr char const* given_values = R"({
  "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
  "bf16": {"enabled": true}, "fp16": {"enabled": false},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.01}},
  "scheduler": {"params": {"warmup_num_steps": 10, "total_num_steps": 1000, "warmup_max_lr": 1e-4, "warmup_min_lr": 0}}
})";

std::vector<Line> real_files() {
  std::vector<Line> files;
  std::ifstream stream{testing::source_folder() / "tests/config/stage_files.jsonl"};
  for (std::string line; std::getline(stream, line);) {
    files.push_back(Line::parse(line));
  }
  return files;
}

/// Paths of the problems in a ConfigError's text.
Paths paths_of(std::string const& message) {
  Paths paths;
  for (auto at = message.find("\n  "); at != std::string::npos; at = message.find("\n  ", at + 1)) {
    auto const begin = at + 3;
    paths.push_back(message.substr(begin, message.find_first_of(" :", begin) - begin));
  }
  return paths;
}

Paths refusal_of(std::string const& text, ConfigInputs const& inputs, int ranks) {
  try {
    static_cast<void>(Config::from_json(text, inputs).settings(ranks, 1000));
    return {};
  } catch (ConfigError const& error) {
    return paths_of(error.what());
  }
}

}  // namespace

TEST_CASE("Files from public repositories are accepted, or rejected like in DeepSpeed") {
  int live = 0, starting = 0;
  std::set<std::string> repositories;
  for (auto const& file : real_files()) {
    INFO(file["repo"] << " " << file["path"]);
    repositories.insert(file["repo"].get<std::string>());
    bool const is_live = file["deepspeed"] == "loads";
    live += is_live ? 1 : 0;
    ConfigInputs inputs;
    inputs.given = given_values;
    auto const text = file["config"].dump();
    auto const ranks = file["ranks"].get<int>();
    auto const refused = refusal_of(text, inputs, ranks);
    CHECK(refused == file["refused"].get<Paths>());
    CHECK(refused.empty() == is_live);
    if (refused.empty()) {
      ++starting;
      Paths notes;
      auto const config = Config::from_json(text, inputs);
      for (auto const& note : config.notes()) {
        if (note.kind != config::NoteKind::assumed) {  // DeepSpeed assumes the same
          notes.push_back(note.path);
        }
      }
      CHECK(notes == file["notes"].get<Paths>());
    }
    Paths open;
    if (refused.empty()) {
      auto const config = Config::from_json(text);  // without given values
      for (auto const& value : config.open()) {
        open.push_back(value.path);
      }
      CHECK(open == file["open"].get<Paths>());
    }
  }
  CHECK(live == 47);
  CHECK(starting == 47);
  CHECK(repositories.size() >= 26);
}

}  // namespace zeroth
