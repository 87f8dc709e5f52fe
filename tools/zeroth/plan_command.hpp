// SPDX-License-Identifier: Apache-2.0
/// zeroth plan: how much memory each stage takes.
#pragma once
#include <CLI/CLI.hpp>

#include "page.hpp"

namespace zeroth::tools {

/// What `zeroth plan` exits with where the stage that is asked for needs more than --device-memory.
inline constexpr int does_not_fit = 3;

/// Adds the subcommand to `app`. When it is given, parsing runs it and prints on `page`; what it throws passes through.
void add_plan_command(CLI::App& app, Page& page);

}  // namespace zeroth::tools
