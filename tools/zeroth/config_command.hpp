// SPDX-License-Identifier: Apache-2.0
/// `zeroth config`: shows the values of stage files, and whether a job could start with them.
#pragma once
#include <CLI/CLI.hpp>

#include "page.hpp"

namespace zeroth::tools {

/// Sets the page's status: 0 if a job could start with every file, 1 if one is rejected, otherwise 3: values are open.
void add_config_command(CLI::App& app, Page& page);

}  // namespace zeroth::tools
