// SPDX-License-Identifier: Apache-2.0
/// The subcommand `simulate`.
#pragma once
#include <CLI/App.hpp>

#include "page.hpp"

namespace zeroth::tools {

/// Prints on `page`, and only after everything was computed.
void add_simulate_command(CLI::App& app, Page& page);

}  // namespace zeroth::tools
