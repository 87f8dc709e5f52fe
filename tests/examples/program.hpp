// SPDX-License-Identifier: Apache-2.0
/// Runs of train_gpt, the program, on a small text.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "files.hpp"
#include "support/child.hpp"

namespace gpt {

using nlohmann::json;
using zeroth::testing::Child;
using zeroth::testing::Ending;
using zeroth::testing::words_of;

inline std::string stage_file(int stage, char const* more = "") {
  return R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0,
    "zeroth": {"reduce_gradients": "every_micro_step"},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1}},
    "zero_optimization": {"reduce_bucket_size": 3000, "stage": )" +
         std::to_string(stage) + "}" + more + "}";
}

/// The path of train_gpt: where it was built, or next to this program if both were carried to another machine.
inline std::string train_gpt() {
  std::filesystem::path const built = TRAIN_GPT;
  auto const beside = std::filesystem::read_symlink("/proc/self/exe").replace_filename(built.filename());
  return (std::filesystem::exists(built) ? built : beside).string();
}

/// A folder with a text, a stage file, and the files that runs of a small model write.
class Place : public Folder {
 public:
  Place() {
    write("text", squares());
    write("stage.json", stage_file(3));
  }
  [[nodiscard]] Child::Options command(std::string const& more, std::string const& before = "") const {
    auto words = before.empty() ? std::vector<std::string>{} : words_of(before);
    words.push_back(train_gpt());
    for (auto const& word : words_of("--config stage.json --data text " + more)) {
      words.push_back(word);
    }
    std::erase(words, "");  // from two adjacent spaces
    return {.command = words, .folder = path(), .environment = {}};
  }
  [[nodiscard]] std::vector<json> report(std::string_view name = "report") const {
    std::vector<json> records;
    std::istringstream lines{read_all(*this / name)};
    for (std::string line; std::getline(lines, line);) {
      records.push_back(json::parse(line));
    }
    return records;
  }
};

inline std::string const small = " --layers 2 --heads 2 --channels 16 --context 12 ";

struct Result {
  Ending ending;
  std::string output;
};
inline Result run(Child::Options const& options) {
  Child child{options};
  auto const ending = child.wait();
  return {ending, child.output()};
}

inline std::vector<json> steps_of(std::vector<json> const& report) {
  std::vector<json> steps;
  for (auto const& record : report) {
    if (record["record"] == "step") {
      steps.push_back(record);
    }
  }
  return steps;
}
/// The numbers of each step that do not depend on the clock.
inline json numbers_of(std::vector<json> const& report) {
  json numbers = json::array();
  for (auto const& step : steps_of(report)) {
    numbers.push_back({step["step"], step["loss"], step["grad_norm"], step["lr"], step["loss_scale"], step["skipped"]});
  }
  return numbers;
}

}  // namespace gpt
