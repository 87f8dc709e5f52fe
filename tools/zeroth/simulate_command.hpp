// SPDX-License-Identifier: Apache-2.0
/// The subcommand `simulate`.
#pragma once
#include <CLI/App.hpp>
#include <iosfwd>

namespace zeroth::tools {

/// Prints to `out`, and only once everything has been found.
void add_simulate_command(CLI::App& app, std::ostream& out);

}  // namespace zeroth::tools
