// SPDX-License-Identifier: Apache-2.0
/// `zeroth env`: the machine and the build, for a report.
#pragma once
#include <CLI/CLI.hpp>
#include <iosfwd>

namespace zeroth::tools {

void add_env_command(CLI::App& app, std::ostream& out);

}  // namespace zeroth::tools
