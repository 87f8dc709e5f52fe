// SPDX-License-Identifier: Apache-2.0
/// The options for model, ranks and stage file, the same in every subcommand.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include <zeroth/config/config.hpp>

#include "model_source.hpp"

namespace zeroth::tools {

struct JobOptions {
  ModelRequest model;
  std::string config_file;               ///< Empty: no file.
  std::string given_file;                ///< Values for keys that the file leaves open; empty: none.
  std::vector<std::string> assignments;  ///< KEY=VALUE
  int ranks = 1;
};

/// Parsing the command line fills `options`, which must live until then.
void add_job_options(CLI::App& command, JobOptions& options);

/// Adds --given and --set.
void add_beside_options(CLI::App& command, std::string& given_file, std::vector<std::string>& assignments);
/// The values of both. Throws ConfigError.
[[nodiscard]] ConfigInputs inputs_of(std::string const& given_file, std::vector<std::string> const& assignments);

/// Reads the stage file, or standard input if `file`, the value of `option`, is "-". Throws ConfigError.
[[nodiscard]] Config read_config(std::string const& file, ConfigInputs const& inputs, char const* option);

/// The stage file. The default is ZeRO's mixed precision in bf16 at stage 3 with overlap, with one micro-step of one
/// sample. Throws ConfigError.
[[nodiscard]] Config config_of(JobOptions const& options);

/// The sequence length. Throws ConfigError if nothing states it.
[[nodiscard]] std::int64_t context_of(SourcedModel const& model);

/// The name of the configuration in the output: the file, or a phrase for the default.
[[nodiscard]] std::string name_of_config(std::string const& config_file);

}  // namespace zeroth::tools
