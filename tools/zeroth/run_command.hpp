// SPDX-License-Identifier: Apache-2.0
/// The subcommand `run`.
#pragma once
#include <CLI/App.hpp>

namespace zeroth::tools {

/// Stores the program's exit status in `status`.
void add_run_command(CLI::App& app, int& status);

}  // namespace zeroth::tools
