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
  auto* const group = command.add_option_group("Model", "The model; exactly one of");
  group->add_option("--model", request.model,
                    "A preset (124M to 1T), a config.json or safetensors file of Hugging Face or their folder, or a "
                    "JSON list of units and parameters; - reads JSON from standard input");
  auto* const parameters =
      group->add_option("--parameters", request.parameters, "Number of parameters, in equal units, such as 7.5e9");
  parameters->transform(whole_from(1, largest_parameter_count));
  group->require_option(1);
  command.add_option("--channels", request.channels, "With --parameters: activation elements per token between units")
      ->transform(whole_from(1, largest_parameter_count))
      ->needs(parameters);
  command.add_option("--context", request.context, "Tokens per sequence; required if the model does not define it")
      ->transform(whole_from(1, longest_context));
  command.add_flag("--untied-head", request.untied_head, "Give the head its own matrix instead of the token embedding");
  command.add_option("--units", request.units, "With --parameters: number of units [32]")
      ->transform(whole_from(1, largest_unit_count))
      ->needs(parameters);
}

}  // namespace

void add_job_options(CLI::App& command, JobOptions& options) {
  add_model_options(command, options.model);
  command.add_option("--config", options.config_file,
                     "Stage file, or - for standard input [bf16 at stage 3 with overlap, 1 sample]");
  add_beside_options(command, options.given_file, options.assignments);
  command.add_option("--ranks", options.ranks, "Number of ranks of the job")
      ->required()
      ->transform(whole_from(1, largest_world));
}

void add_beside_options(CLI::App& command, std::string& given_file, std::vector<std::string>& assignments) {
  command.add_option(
      "--given", given_file,
      "JSON file, or - for standard input, with values for the keys that the stage file leaves \"auto\"");
  command
      .add_option("--set", assignments,
                  "Override a value of the stage file: KEY=VALUE, such as zero_optimization.stage=2")
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
