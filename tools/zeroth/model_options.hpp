/// The options that say which model: the same in every subcommand.
#pragma once
#include <CLI/CLI.hpp>

#include "model_source.hpp"

namespace zeroth::tools {

/// `request` is filled when the command line is parsed, and must be there until then.
void add_model_options(CLI::App& command, ModelRequest& request);

}  // namespace zeroth::tools
