// SPDX-License-Identifier: Apache-2.0
/// zeroth plan: how much memory each stage takes.
#pragma once
#include <CLI/CLI.hpp>
#include <iosfwd>

namespace zeroth::tools {

/// Adds the subcommand to `app`. When it is given, parsing runs it and writes to `out`; what it throws passes through.
void add_plan_command(CLI::App& app, std::ostream& out);

}  // namespace zeroth::tools
