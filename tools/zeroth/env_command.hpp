// SPDX-License-Identifier: Apache-2.0
/// `zeroth env`: the machine and the build, for a report.
#pragma once
#include <CLI/CLI.hpp>

#include "page.hpp"

namespace zeroth::tools {

void add_env_command(CLI::App& app, Page& page);

}  // namespace zeroth::tools
