// SPDX-License-Identifier: Apache-2.0
/// The commands and options of a program as data: for completions, a manual page, and suggestions for mistyped words.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace zeroth::tools {

struct OptionHelp {
  std::vector<std::string> names;  ///< "--ranks", "-q"; for an argument without a name the word for its value: "files".
  std::string value;               ///< The type of its value, "INT"; empty: takes no value.
  std::vector<std::string> words;  ///< The only values allowed, if they can be listed.
  std::string text;                ///< A phrase of help.
  std::string otherwise;           ///< The default; empty if there is none, or if the phrase states it.
  bool is_required = false;
};

struct CommandHelp {
  std::string path;  ///< "checkpoint verify"; empty for the program itself.
  std::string name, text, footer;
  std::vector<OptionHelp> options, arguments;
  std::vector<CommandHelp> commands;
};

/// The help of `app` and of all its subcommands; a group's options count as the command's own.
[[nodiscard]] CommandHelp help_of(CLI::App const& app);

/// `command` and all its subcommands, in the order of the help.
[[nodiscard]] std::vector<CommandHelp const*> all_commands(CommandHelp const& command);

}  // namespace zeroth::tools
