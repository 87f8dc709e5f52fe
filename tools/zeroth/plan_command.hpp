// SPDX-License-Identifier: Apache-2.0
/// `zeroth plan`: how much memory each stage needs.
#pragma once
#include <CLI/CLI.hpp>

#include "page.hpp"

namespace zeroth::tools {

/// Exit status of `zeroth plan` if the requested stage needs more than --device-memory.
inline constexpr int does_not_fit = 3;

/// Adds the subcommand to `app`. Parsing a command line with it runs it and prints on `page`; exceptions pass through.
void add_plan_command(CLI::App& app, Page& page);

}  // namespace zeroth::tools
