// SPDX-License-Identifier: Apache-2.0
/// Malformed files, and all of their error messages: malformed.txt.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "config/config_support.hpp"
#include "support/catch.hpp"

namespace zeroth {
namespace {

using testing::problems_of;

struct Malformed {
  std::string text;
  std::optional<int> world;
  std::string problems;
};

Malformed malformed(std::string const& line) {
  std::string const world = "world ";
  if (line.starts_with(world)) {
    auto const end = line.find(": ");
    return {line.substr(end + 2), std::stoi(line.substr(world.size(), end - world.size())), {}};
  }
  return {line.starts_with('"') ? testing::file_with(line) : line, {}, {}};
}

std::vector<Malformed> read_table() {
  std::vector<Malformed> table;
  std::ifstream file{testing::source_folder() / "tests/config/malformed.txt"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("  ")) {
      auto& problems = table.back().problems;
      problems += (problems.empty() ? "" : "\n") + line;
    } else if (!line.empty() && !line.starts_with('#')) {
      table.push_back(malformed(line));
    }
  }
  return table;
}

TEST_CASE("A malformed file is rejected with all of its problems") {
  auto const table = read_table();
  CHECK(table.size() >= 150);
  for (auto const& [text, world, problems] : table) {
    INFO(text);
    CHECK_FALSE(problems.empty());
    if (world) {
      CHECK(problems_of(text) == "");  // only the world makes it wrong
    }
    CHECK(problems_of(text, world) == problems);
  }
}

TEST_CASE("An empty text is refused") {
  CHECK(problems_of("") ==
        "  line 1, column 1: not valid JSON: syntax error while parsing value - unexpected end of input; expected '[', "
        "'{', or a literal");
}

TEST_CASE("All problems are reported at once, in the order of the file, under its name") {
  auto const text = R"(// a comment
{
  "train_batch_size": 30,
  "zero_optimization": {
    "stage": 4, /* another
    comment */ "reduce_bucket_sze": 5e8
  },
  "train_micro_batch_size_per_gpu": 4,
  "scheduler": {"type": "WarmupDecayLR"},
  "train_batch_size": 32
})";
  CHECK_THROWS_MATCHES(
      Config::from_json(text), ConfigError,
      Catch::Message(
          "<text>: 5 problems\n"
          "  train_batch_size (line 3): 30 is not a multiple of 4 (train_micro_batch_size_per_gpu); nearest: "
          "28 or 32\n"
          "  zero_optimization.stage (line 5): 4 is out of range; allowed: an integer from 0 to 3\n"
          "  zero_optimization.reduce_bucket_sze (line 6): unknown key, with value 5e8; did you mean "
          "zero_optimization.reduce_bucket_size (an integer of at least 1, or \"auto\")?\n"
          "  train_batch_size (line 10): given twice, first on line 3\n"
          "  scheduler.params.total_num_steps: missing; WarmupDecayLR needs it: an integer of at least 1"));
}

TEST_CASE("A mistake in JSON is reported with line and column") {
  CHECK(problems_of("{\n  \"train_batch_size\": 8\n  \"fp16\": {}\n}") ==
        "  line 3, column 8: not valid JSON: syntax error while parsing object - unexpected string literal; expected "
        "'}'");
  CHECK(problems_of("{\n  \"train_batch_size\": 8,\n") ==
        "  line 3, column 1: not valid JSON: syntax error while parsing object key - unexpected end of input; expected "
        "string literal");
  CHECK(problems_of("{\"\xff\": 1}")
            .starts_with("  line 1, column 3: not valid JSON: syntax error while parsing object "
                         "key - invalid string: ill-formed UTF-8 byte"));
}

TEST_CASE("A mistake causes no further messages about keys that depend on it") {
  // An absent accumulation would make the dtypes contradict each other; a wrong stage decides when gradients are
  // reduced.
  CHECK(problems_of(testing::file_with(R"("gradient_accumulation_steps": "two", "bf16": {"enabled": true},
      "data_types": {"grad_accum_dtype": "fp16"})")) ==
        "  gradient_accumulation_steps (line 1): \"two\" is a string; allowed: an integer from 1 to 2147483647");
  CHECK(problems_of(testing::file_with(R"("fp16": {"enabled": 1}, "data_types": {"param_dtype": "fp16"})")) ==
        "  fp16.enabled (line 1): 1 is a number; allowed: true or false");
  CHECK(problems_of(R"({"train_batch_size": 0})") ==
        "  train_batch_size (line 1): 0 is out of range; allowed: an integer from 1 to 2147483647");
  CHECK(problems_of(testing::file_with(R"("optimizer": {"type": 1, "params": {"lr": 1, "adam_w_mode": false}})")) ==
        "  optimizer.type (line 1): 1 is a number; allowed: \"AdamW\", \"Adam\", \"SGD\", \"Adagrad\", \"RMSprop\", "
        "\"Lion\", \"Lamb\", \"Muon\" or \"OneBitAdam\"");
}

TEST_CASE("A message quotes only printable characters of a file") {
  auto const message = problems_of(testing::file_with(R"("\u001b[2J": 1, ")" + std::string(500, 'x') +
                                                      R"(": "\u0000", "zeroth": {"strict": true})"));
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(message.find('\0') == std::string::npos);
  CHECK(message.find("\"\\x1b[2J\" (line 1)") != std::string::npos);
  CHECK(message.find(std::string(61, 'x')) == std::string::npos);
  // Bytes 60 and 61 are one character: it is omitted as a whole.
  auto const dots = std::string(59, '.');
  CHECK(problems_of(testing::file_with(R"("fp16": ")" + dots + "\u00e9\u00e9\"")) ==
        "  fp16 (line 1): \"" + dots + "...\" is a string; allowed: an object");
}

TEST_CASE("The message about an unreadable file names it") {
  auto const missing = testing::source_folder() / "configs" / "no_such_file.json";
  CHECK_THROWS_MATCHES(Config::from_file(missing), ConfigError,
                       Catch::Message(missing.string() + ": 1 problem\n  cannot be opened: No such file or directory"));
  auto const folder = testing::source_folder() / "configs";
  CHECK_THROWS_MATCHES(Config::from_file(folder), ConfigError,
                       Catch::Message(folder.string() + ": 1 problem\n  is a folder; allowed: a regular file"));
}

TEST_CASE("An impossible number of ranks is a ContractError") {
  auto const config = Config::from_json(testing::file_with(""));
  CHECK_THROWS_WITH(config.settings(0, 1), Catch::StartsWith("Config::settings: world is 0; allowed: 1 or more"));
  CHECK_THROWS_AS(config.settings(0, 1), ContractError);
  CHECK_THROWS_AS(config.settings(1, -1), ContractError);
}

}  // namespace
}  // namespace zeroth
