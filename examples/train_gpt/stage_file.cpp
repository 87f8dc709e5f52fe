// SPDX-License-Identifier: Apache-2.0
#include "stage_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/tool/config/assignments.hpp>
#include <zeroth/tool/core/input_file.hpp>

namespace gpt {

namespace {

/// The options in the form of a stage file.
std::string stated(StageFileOptions const& options) {
  std::vector<std::string> assignments;
  auto const add = [&](char const* key, auto const& value) {
    if (value) {
      assignments.push_back(fmt::format("{}={}", key, *value));
    }
  };
  add("train_micro_batch_size_per_gpu", options.micro_batch);
  add("gradient_accumulation_steps", options.accumulation);
  add("optimizer.params.lr", options.lr);
  add("optimizer.params.weight_decay", options.weight_decay);
  add("scheduler.params.warmup_num_steps", options.warmup);
  if (options.dtype) {
    assignments.push_back(fmt::format("fp16.enabled={}", *options.dtype == "fp16"));
    assignments.push_back(fmt::format("bf16.enabled={}", *options.dtype == "bf16"));
  }
  return assignments.empty() ? std::string{} : zeroth::config::changes_from(assignments);
}

}  // namespace

void declare(CLI::App& app, StageFileOptions& options) {
  auto* const group = app.add_option_group("Stage file");
  group->add_option("--config", options.config, "Stage file: stage, batch, precision, optimizer, schedule")->required();
  group->add_option("--given", options.given, "JSON file with values for the keys that the stage file leaves \"auto\"");
  group
      ->add_option("--set", options.set,
                   "Override a value of the stage file: KEY=VALUE, such as zero_optimization.stage=2")
      ->allow_extra_args(false);
  group->add_option("--micro-batch", options.micro_batch,
                    "Samples per rank and micro-step, if the file does not set it");
  group->add_option("--accumulation", options.accumulation, "Micro-steps per update, if the file does not set it");
  group->add_option("--lr", options.lr, "Learning rate, if the file does not set it");
  group->add_option("--weight-decay", options.weight_decay, "Weight decay, if the file does not set it");
  group->add_option("--warmup", options.warmup, "Warm-up updates of the schedule, if the file does not set it");
  group->add_option("--dtype", options.dtype, "Compute dtype, if the file does not set it")
      ->check(CLI::IsMember{{"fp32", "bf16", "fp16"}});
  group->add_flag("--verbose", options.verbose, "Print for each key without effect why it has none");
}

zeroth::Config read_stage_file(StageFileOptions const& options) {
  zeroth::ConfigInputs inputs;
  inputs.stated = stated(options);
  if (!options.given.empty()) {
    inputs.given_by = options.given.string();
    try {
      inputs.given = zeroth::read_text(options.given);
    } catch (zeroth::Unreadable const& error) {
      throw zeroth::ConfigError{fmt::format("--given {}: {}", options.given.string(), error.what())};
    }
  }
  if (!options.set.empty()) {
    inputs.changes = zeroth::config::changes_from(options.set);
  }
  auto config = zeroth::Config::from_file(options.config, inputs);
  config.expect_complete();
  return config;
}

std::string notes_of(StageFileOptions const& options, zeroth::Config const& config) {
  std::string lines;
  for (auto const& note : options.verbose ? config.notes() : zeroth::config::Notes{}) {
    auto const where = note.line > 0 ? fmt::format(" (line {})", note.line) : std::string{};
    lines += fmt::format("{}{}: {}\n", note.path, where, note.text);
  }
  return lines;
}

}  // namespace gpt
