// SPDX-License-Identifier: Apache-2.0
#include "job_options.hpp"

#include "option_values.hpp"

namespace zeroth::tools {
namespace {

/// 2 bytes of parameter, 2 of gradient, 12 of optimizer. Overlap at every stage, so that stages differ in nothing else.
constexpr char const* without_file = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                                         "zero_optimization": {"stage": 3, "overlap_comm": true}})";

void add_model_options(CLI::App& command, ModelRequest& request) {
  auto* const group = command.add_option_group("Model", "What is trained: one of");
  group->add_option("--model", request.model,
                    "Preset (124M to 1T), Hugging Face config.json or safetensors file or their folder, or JSON list "
                    "of units and parameters");
  auto* const parameters = group->add_option("--parameters", request.parameters, "So many, in equal units: 7.5e9");
  parameters->transform(whole_from(1, largest_parameter_count));
  group->require_option(1);
  command.add_option("--units", request.units, "Of --parameters [32]")
      ->transform(whole_from(1, largest_unit_count))
      ->needs(parameters);
}

}  // namespace

void add_job_options(CLI::App& command, JobOptions& options) {
  add_model_options(command, options.model);
  command.add_option("--config", options.config_file,
                     "Stage file; without one, 16-bit mixed precision at stage 3 with overlap, 1 sample");
  command.add_option("--ranks", options.ranks, "Of the job")->required()->transform(whole_from(1, largest_world));
}

Config config_of(JobOptions const& options) {
  return options.config_file.empty() ? Config::from_json(without_file) : Config::from_file(options.config_file);
}

std::string name_of_config(std::string const& config_file) {
  return config_file.empty() ? "no stage file" : config_file;
}

}  // namespace zeroth::tools
