// SPDX-License-Identifier: Apache-2.0
/// `zeroth completion` and `zeroth man`: what a shell and a manual have, made from the help.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "command_help.hpp"
#include "page.hpp"

namespace zeroth::tools {

/// A script for bash: commands, options, and the values of those that take words; of others files.
[[nodiscard]] std::string bash_completion(CommandHelp const& program);
/// The same for zsh, with the phrases of the help.
[[nodiscard]] std::string zsh_completion(CommandHelp const& program);
/// A manual page of section 1, for man(1).
[[nodiscard]] std::string man_page(CommandHelp const& program, std::string const& version);

/// The commands, of all that `app` has when they run.
void add_completion_commands(CLI::App& app, Page& page);

}  // namespace zeroth::tools
