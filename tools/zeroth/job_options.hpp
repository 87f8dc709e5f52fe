// SPDX-License-Identifier: Apache-2.0
/// The options that say what is trained, by how many ranks and with which file: the same in every subcommand.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include <zeroth/config/config.hpp>

#include "model_source.hpp"

namespace zeroth::tools {

struct JobOptions {
  ModelRequest model;
  std::string config_file;               ///< Empty: there is none.
  std::string given_file;                ///< Values for what the file leaves open; empty: there are none.
  std::vector<std::string> assignments;  ///< KEY=VALUE
  int ranks = 1;
};

/// `options` is filled when the command line is parsed, and must be there until then.
void add_job_options(CLI::App& command, JobOptions& options);

/// --given and --set.
void add_beside_options(CLI::App& command, std::string& given_file, std::vector<std::string>& assignments);
/// What they say. Throws ConfigError.
[[nodiscard]] ConfigInputs inputs_of(std::string const& given_file, std::vector<std::string> const& assignments);

/// The stage file, from standard input where `file` is "-", which `option` has named. Throws ConfigError.
[[nodiscard]] Config read_config(std::string const& file, ConfigInputs const& inputs, char const* option);

/// The stage file. Without one: ZeRO's mixed precision in bf16 at stage 3 with overlap, one micro-step of one sample.
/// Throws ConfigError.
[[nodiscard]] Config config_of(JobOptions const& options);

/// Throws ConfigError where nothing says how long a sequence is.
[[nodiscard]] std::int64_t context_of(SourcedModel const& model);

/// What the output calls the configuration: the file, or what stands for it.
[[nodiscard]] std::string name_of_config(std::string const& config_file);

}  // namespace zeroth::tools
