// SPDX-License-Identifier: Apache-2.0
#include "job_options.hpp"

#include <fmt/format.h>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/config/assignments.hpp>
#include <zeroth/tool/core/input_file.hpp>

#include "option_values.hpp"
#include "standard_input.hpp"

namespace zeroth::tools {
namespace {

/// 2 bytes per parameter, 2 per gradient, 12 for the optimizer. Overlap at every stage, so that stages differ in
/// nothing else.
constexpr char const* without_file = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                                         "zero_optimization": {"stage": 3, "overlap_comm": true}})";

void add_model_options(CLI::App& command, ModelRequest& request) {
  auto* const group = command.add_option_group("Model", "What is trained: one of");
  group->add_option("--model", request.model,
                    "Preset (124M to 1T), Hugging Face config.json or safetensors file or their folder, or JSON list "
                    "of units and parameters; - for JSON from standard input");
  auto* const parameters = group->add_option("--parameters", request.parameters, "So many, in equal units: 7.5e9");
  parameters->transform(whole_from(1, largest_parameter_count));
  group->require_option(1);
  command.add_option("--channels", request.channels, "Of --parameters: elements of a token from a unit to the next")
      ->transform(whole_from(1, largest_parameter_count))
      ->needs(parameters);
  command.add_option("--context", request.context, "Tokens of a sequence; needed where the model does not say it")
      ->transform(whole_from(1, longest_context));
  command.add_flag("--untied-head", request.untied_head,
                   "The head has a matrix of its own, and not the token embedding");
  command.add_option("--units", request.units, "Of --parameters [32]")
      ->transform(whole_from(1, largest_unit_count))
      ->needs(parameters);
}

}  // namespace

void add_job_options(CLI::App& command, JobOptions& options) {
  add_model_options(command, options.model);
  command.add_option("--config", options.config_file,
                     "Stage file, or - for standard input; without one, 16-bit mixed precision at stage 3 with "
                     "overlap, 1 sample");
  add_beside_options(command, options.given_file, options.assignments);
  command.add_option("--ranks", options.ranks, "Of the job")->required()->transform(whole_from(1, largest_world));
}

void add_beside_options(CLI::App& command, std::string& given_file, std::vector<std::string>& assignments) {
  command.add_option("--given", given_file,
                     "JSON, or - for standard input, with values for what the stage file leaves open, \"auto\"");
  command.add_option("--set", assignments, "KEY=VALUE instead of what the stage file says: zero_optimization.stage=2")
      ->allow_extra_args(false);
}

ConfigInputs inputs_of(std::string const& given_file, std::vector<std::string> const& assignments) {
  ConfigInputs inputs;
  if (given_file == standard_input) {
    inputs.given_by = standard_input_name;
    inputs.given = read_standard_input("--given");
  } else if (!given_file.empty()) {
    inputs.given_by = given_file;
    try {
      inputs.given = read_text(given_file);
    } catch (Unreadable const& error) {
      throw ConfigError{fmt::format("--given {}: {}", given_file, error.what())};
    }
  }
  if (!assignments.empty()) {
    inputs.changes = config::changes_from(assignments);
  }
  return inputs;
}

Config read_config(std::string const& file, ConfigInputs const& inputs, char const* option) {
  if (file != standard_input) {
    return Config::from_file(file, inputs);
  }
  auto const text = read_standard_input(option);
  try {
    return Config::from_json(text, inputs);
  } catch (ConfigError const& error) {
    throw ConfigError{name_standard_input(error.what())};
  }
}

Config config_of(JobOptions const& options) {
  auto const inputs = inputs_of(options.given_file, options.assignments);
  return options.config_file.empty() ? Config::from_json(without_file, inputs)
                                     : read_config(options.config_file, inputs, "--config");
}

std::int64_t context_of(SourcedModel const& model) {
  if (!model.context) {
    throw ConfigError{fmt::format("--context is required: {} does not say how long a sequence is", model.name)};
  }
  return *model.context;
}

std::string name_of_config(std::string const& config_file) {
  return config_file.empty()             ? "no stage file"
         : config_file == standard_input ? std::string{standard_input_name}
                                         : config_file;
}

}  // namespace zeroth::tools
