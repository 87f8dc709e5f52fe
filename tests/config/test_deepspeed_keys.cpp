// SPDX-License-Identifier: Apache-2.0
/// scripts/deepspeed_keys.py reads deepspeed_keys.jsonl from an installed DeepSpeed 0.19.8.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "config/config_support.hpp"
#include "config/foreign_keys.hpp"
#include "config/keys.hpp"
#include "config/names.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

using Json = nlohmann::json;

std::vector<Json> keys_of_deepspeed() {
  std::vector<Json> keys;
  std::ifstream file{testing::source_folder() / "tests/config/deepspeed_keys.jsonl"};
  for (std::string line; std::getline(file, line);) {
    keys.push_back(Json::parse(line));
  }
  return keys;
}

/// {"a": {"b": value}}
Json nested(std::string const& path, Json value) {
  std::string pointer = "/" + path;
  std::ranges::replace(pointer, '.', '/');
  Json object;
  object[Json::json_pointer{pointer}] = std::move(value);
  return object;
}

/// A file that may have the key: a parameter of an optimizer or a scheduler needs its type.
Json file_for(std::string const& path, Json const& value) {
  auto file = nested(path, value);
  if (!path.starts_with("train_batch_size")) {
    file["train_batch_size"] = 8;
  }
  if (path.starts_with("optimizer.params.")) {
    file["optimizer"]["type"] = "Adam";
  }
  if (path.starts_with("scheduler.params.cycle") || path.starts_with("scheduler.params.decay")) {
    // cycle_momentum at its default needs an optimizer without betas
    file["optimizer"]["type"] = "SGD";
    file["scheduler"]["type"] = "OneCycle";
    file["scheduler"]["params"]["cycle_min_lr"] = 1e-4;
    file["scheduler"]["params"]["cycle_max_lr"] = 1e-3;
    return file;
  }
  if (path.starts_with("scheduler.params.")) {
    auto const index = config::find_key(path);
    auto const types = index ? config::keys[*index].types : std::string_view{};
    auto const type = types.substr(0, types.find(' '));
    file["scheduler"]["type"] = type.empty() ? "WarmupLR" : type;
    if (config::has_word(config::keys[config::index_of<"scheduler.params.total_num_steps">].types, type)) {
      file["scheduler"]["params"]["total_num_steps"] = 10'000;
    }
  }
  return file;
}

TEST_CASE("Every key that DeepSpeed reads is known") {
  auto const keys = keys_of_deepspeed();
  CHECK(keys.size() >= 240);
  for (auto const& key : keys) {
    INFO(key);
    CHECK(config::is_known(config::canonical(key["key"].get<std::string>())));
  }
}

TEST_CASE("Every DeepSpeed key at its default is accepted without a note") {
  int checked = 0;
  for (auto const& key : keys_of_deepspeed()) {
    auto const path = key["key"].get<std::string>();
    if (!key.contains("default")) {
      continue;
    }
    auto const file = file_for(path, key["default"]).dump();
    INFO(file);
    CHECK(testing::problems_of(file) == "");
    ++checked;
  }
  CHECK(checked >= 200);
}

TEST_CASE("The table marks as removed exactly the keys that DeepSpeed has removed") {
  std::set<std::string> theirs;
  for (auto const& key : keys_of_deepspeed()) {
    if (key.value("removed", false)) {
      theirs.insert(key["key"].get<std::string>());
    }
  }
  std::set<std::string> ours;
  for (auto const& key : config::foreign_keys()) {
    if (key.verdict == config::Verdict::removed) {
      ours.insert(std::string{key.path});
    }
  }
  for (auto const& key : config::keys) {
    if (key.removed) {
      ours.insert(std::string{key.path});
    }
  }
  CHECK(ours == theirs);
}

}  // namespace
}  // namespace zeroth
