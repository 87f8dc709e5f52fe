// SPDX-License-Identifier: Apache-2.0
#include "config_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/core/whole_file.hpp>

#include "model_source.hpp"
#include "option_values.hpp"
#include "plan.hpp"
#include "plan_command.hpp"
#include "presets.hpp"
#include "readable.hpp"

namespace zeroth::tools {
namespace {

struct Answers {
  std::string model;  ///< As answered.
  std::int64_t ranks = 0, ranks_of_machine = 0, samples = 0;
  double memory_gib = 0;
  std::string dtype;
  std::string disk;  ///< A folder; empty: none.
};

/// The location of parameters and states.
struct Choice {
  int stage = 0;
  bool states_on_disk = false, parameters_on_disk = false;
  bool shards_within_machines = false;  ///< Parameters are gathered within a machine (hpZ).
};

/// Asks, and checks the answers.
class Questions {
 public:
  Questions(std::istream& answers, std::ostream& questions, bool asks_again)
      : answers_{answers}, questions_{questions}, asks_again_{asks_again} {}

  /// `take` returns whether it accepts an answer.
  template <class Take>
  void ask(std::string_view question, std::string const& by_default, std::string_view allowed, Take const& take) {
    for (;;) {
      questions_ << fmt::format("{} [{}]: ", question, by_default) << std::flush;
      std::string answer;
      bool const is_there = static_cast<bool>(std::getline(answers_, answer));
      if (take(is_there && !answer.empty() ? answer : by_default)) {
        return;
      }
      if (!asks_again_ || !is_there) {
        throw ConfigError{fmt::format("{}: \"{}\"; allowed: {}", question, answer, allowed)};
      }
      questions_ << fmt::format("\"{}\"; allowed: {}\n", answer, allowed);
    }
  }

  std::int64_t whole(std::string_view question, std::int64_t by_default, std::int64_t most,
                     std::optional<std::int64_t> multiple_of = {}) {
    std::int64_t result = 0;
    auto const allowed =
        multiple_of ? fmt::format("a multiple of {}, up to {}", *multiple_of, most) : fmt::format("1 to {}", most);
    ask(question, std::to_string(by_default), allowed, [&](std::string const& answer) {
      auto const number = whole_number(answer, 1, most);
      result = number.value_or(0);
      return number && (!multiple_of || *number % *multiple_of == 0);
    });
    return result;
  }

 private:
  std::istream& answers_;
  std::ostream& questions_;
  bool asks_again_;
};

ModelRequest model_named(std::string const& answer) {
  ModelRequest request;
  if (auto const count = find_preset(answer) ? std::nullopt : whole_number(answer, 1, largest_parameter_count)) {
    request.parameters = count;
  } else {
    request.model = answer;
  }
  return request;
}

Answers ask(Questions& questions) {
  constexpr std::int64_t most_samples = 1 << 30;
  Answers all;
  questions.ask("Model: a preset (124M to 1T), a Hugging Face config.json or folder, or a number of parameters", "124M",
                "a preset, such as 7.5B; a file or folder that exists; a number, such as 7.5e9",
                [&](std::string const& answer) {
                  all.model = answer;
                  try {
                    return !read_model(model_named(answer)).name.empty();
                  } catch (ConfigError const&) {
                    return false;
                  }
                });
  all.ranks = questions.whole("Ranks, on all machines", 2, largest_world);
  all.ranks_of_machine = all.ranks;
  questions.ask("Ranks of a machine, between which links are fast", std::to_string(all.ranks),
                fmt::format("a divisor of {}", all.ranks), [&](std::string const& answer) {
                  auto const number = whole_number(answer, 1, all.ranks);
                  all.ranks_of_machine = number.value_or(1);
                  return number && all.ranks % *number == 0;
                });
  questions.ask("Memory of a rank, in GiB", "16", "a number above 0, up to 1e6", [&](std::string const& answer) {
    auto const number = positive_number(answer, 1e6);
    all.memory_gib = number.value_or(0);
    return number.has_value();
  });
  questions.ask("Dtype of parameters and math", "bf16", "fp32, bf16 or fp16", [&](std::string const& answer) {
    all.dtype = answer;
    return answer == "fp32" || answer == "bf16" || answer == "fp16";
  });
  all.samples = questions.whole("Samples of an update, over all ranks", all.ranks, most_samples, all.ranks);
  questions.ask("Folder on a fast disk of each machine, for states that do not fit, or none", "none",
                "none, or a folder's name without control characters", [&](std::string const& answer) {
                  all.disk = answer == "none" ? "" : answer;
                  return answer.find_first_of("\"\\\n\r\t") == std::string::npos;
                });
  return all;
}

std::vector<Choice> choices_of(Answers const& answers) {
  std::vector<Choice> all{{.stage = 0}, {.stage = 1}, {.stage = 2}};
  if (answers.ranks_of_machine > 1 && answers.ranks_of_machine < answers.ranks) {
    all.push_back({.stage = 3, .shards_within_machines = true});
  }
  all.push_back({.stage = 3});
  if (!answers.disk.empty()) {
    all.push_back({.stage = 3, .states_on_disk = true});
    all.push_back({.stage = 3, .states_on_disk = true, .parameters_on_disk = true});
  }
  return all;
}

/// `needed`: what a rank allocates with this choice, or 0 if that is not known yet.
std::string file_of(Answers const& answers, Choice const& choice, std::int64_t needed) {
  auto text = fmt::format(
      "// For {} in {} of {} GiB.\n{{\n"
      "  // Over all ranks. Each rank computes one sample at a time; more at once is faster, and needs more memory "
      "for\n"
      "  // activations.\n"
      "  \"train_batch_size\": {},\n  \"train_micro_batch_size_per_gpu\": 1,\n  \"gradient_clipping\": 1.0,\n",
      answers.model, counted(answers.ranks, "rank"), answers.memory_gib, answers.samples);
  if (answers.dtype != "fp32") {
    text +=
        fmt::format("  // Masters and optimizer states stay fp32.\n  \"{}\": {{\"enabled\": true}},\n", answers.dtype);
  }
  text += fmt::format(
      "  \"zero_optimization\": {{\n"
      "    // The first stage that leaves a quarter of the memory to activations: a rank allocates {}.\n"
      "    \"stage\": {},\n    // The elements of the model's largest unit.\n    \"reduce_bucket_size\": \"auto\"",
      readable_bytes(needed), choice.stage);
  if (choice.stage == 3) {
    text += ",\n    \"stage3_prefetch_bucket_size\": \"auto\"";
  }
  if (choice.shards_within_machines) {
    text += fmt::format(
        ",\n    // Parameters are gathered within a machine, whose ranks hold a copy.\n    "
        "\"zero_hpz_partition_size\": {}",
        answers.ranks_of_machine);
  }
  auto const on_disk = [&](char const* key) {
    return fmt::format(",\n    \"{}\": {{\"device\": \"nvme\", \"nvme_path\": \"{}\"}}", key, answers.disk);
  };
  text += choice.states_on_disk
              ? on_disk("offload_optimizer") +
                    ",\n    // Elements that are updated at once: several such pieces are in memory.\n"
                    "    \"sub_group_size\": 1e8"
              : "";
  text += choice.parameters_on_disk ? on_disk("offload_param") : "";
  return text +
         "\n  },\n  \"optimizer\": {\n    \"type\": \"AdamW\",\n"
         "    \"params\": {\"lr\": 3e-4, \"betas\": [0.9, 0.95], \"weight_decay\": 0.1}\n  }\n}\n";
}

}  // namespace

void write_config(std::filesystem::path const& path, std::istream& answers, std::ostream& questions, bool asks_again,
                  Page& page) {
  if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
    throw ConfigError{fmt::format("--write: {} exists; allowed: a file that does not", path.string())};
  }
  Questions asked{answers, questions, asks_again};
  auto const all = ask(asked);
  auto const model = read_model(model_named(all.model));
  auto const limit = std::llround(0.75 * all.memory_gib * 0x1p30);
  std::int64_t least = 0;
  for (auto const& choice : choices_of(all)) {
    PlanInput const input{model.model, Config::from_json(file_of(all, choice, 0)), static_cast<int>(all.ranks), {}};
    auto const needed = plan_of(input).bytes.total();
    if (needed <= limit) {
      write_whole_file("stage file", path, file_of(all, choice, needed));
      page.add_text(fmt::format("{} written: stage {}, {} per rank of {} GiB\n", path.string(), choice.stage,
                                readable_bytes(needed), all.memory_gib));
      return;
    }
    least = least == 0 ? needed : std::min(least, needed);
  }
  page.add_text(
      fmt::format("nothing written: a rank would need at least {}, and {} GiB leave {} beside activations; {}\n",
                  readable_bytes(least), all.memory_gib, readable_bytes(limit),
                  all.disk.empty() ? "use more ranks, or name a disk" : "use more ranks"));
  page.status = does_not_fit;
}

}  // namespace zeroth::tools
