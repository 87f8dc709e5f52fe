// SPDX-License-Identifier: Apache-2.0
/// What a command line knows, as data: for completions, for a manual page, and for words that are nearly right.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace zeroth::tools {

struct OptionHelp {
  std::vector<std::string> names;  ///< "--ranks", "-q"; of an argument without a name what stands for it: "files".
  std::string value;               ///< What it takes, "INT"; empty: nothing.
  std::vector<std::string> words;  ///< That it takes and nothing else, where these can be listed.
  std::string text;                ///< A phrase.
  std::string otherwise;           ///< Its value where it is not given; empty: none, or the phrase says it.
  bool is_required = false;
};

struct CommandHelp {
  std::string path;  ///< "checkpoint verify"; empty for the program itself.
  std::string name, text, footer;
  std::vector<OptionHelp> options, arguments;
  std::vector<CommandHelp> commands;
};

/// Of `app` and all commands below it; its groups' options are its own.
[[nodiscard]] CommandHelp help_of(CLI::App const& app);

/// `command` and all below it, in the order of the help.
[[nodiscard]] std::vector<CommandHelp const*> all_commands(CommandHelp const& command);

}  // namespace zeroth::tools
