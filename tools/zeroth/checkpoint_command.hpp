// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/CLI.hpp>
#include <iosfwd>

namespace zeroth::tools {

/// Adds `zeroth checkpoint inspect | verify | diff | export`, which write to `out`, and leave their exit status in
/// `status` where that says more than that it worked. Both must outlive the app's parse.
void add_checkpoint_command(CLI::App& app, std::ostream& out, int& status);

}  // namespace zeroth::tools
