// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>

#include "page.hpp"

namespace zeroth::tools {

/// Adds `zeroth checkpoint inspect | verify | diff | export | remove | gc`, which print on `page` and set its status.
/// `page` must outlive the app's parse.
void add_checkpoint_command(CLI::App& app, Page& page);

}  // namespace zeroth::tools
