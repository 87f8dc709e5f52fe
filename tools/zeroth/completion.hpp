// SPDX-License-Identifier: Apache-2.0
/// `zeroth completion` and `zeroth man`: shell completions and a manual page, made from the help.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "command_help.hpp"
#include "page.hpp"

namespace zeroth::tools {

/// A script for bash: completes commands, options, and values; options without a list of words get files.
[[nodiscard]] std::string bash_completion(CommandHelp const& program);
/// A script for zsh, with the phrases of the help.
[[nodiscard]] std::string zsh_completion(CommandHelp const& program);
/// A manual page of section 1, for man(1).
[[nodiscard]] std::string man_page(CommandHelp const& program, std::string const& version);

/// Adds the commands. When they run, they describe all commands that `app` has by then.
void add_completion_commands(CLI::App& app, Page& page);

}  // namespace zeroth::tools
