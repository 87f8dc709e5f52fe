// SPDX-License-Identifier: Apache-2.0
#include "mistyped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <zeroth/tool/config/nearest.hpp>

#include "command_help.hpp"

namespace zeroth::tools {
namespace {

CommandHelp const* command_named(CommandHelp const& above, std::string_view name) {
  auto const found = std::ranges::find(above.commands, name, &CommandHelp::name);
  return found == above.commands.end() ? nullptr : &*found;
}

std::vector<std::string> option_names(CommandHelp const& command) {
  std::vector<std::string> names;
  for (auto const& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  std::erase_if(names, [](std::string const& name) { return !name.starts_with("--"); });
  return names;
}

std::vector<std::string> command_names(CommandHelp const& above) {
  std::vector<std::string> names;
  for (auto const& command : above.commands) {
    names.push_back(command.name);
  }
  return names;
}

std::string nearest_of(std::string_view word, std::vector<std::string> const& names) {
  return std::string{config::nearest(word, {names.begin(), names.end()})};
}

bool contains(std::vector<std::string> const& names, std::string_view word) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

}  // namespace

std::string what_was_meant(CLI::App const& app, int argc, char const* const* argv, CLI::ParseError const& error) {
  if (dynamic_cast<CLI::ExtrasError const*>(&error) == nullptr &&
      dynamic_cast<CLI::RequiredError const*>(&error) == nullptr) {
    return {};
  }
  auto const program = help_of(app);
  auto const* at = &program;
  for (int i = 1; i < argc; ++i) {
    std::string_view const argument = argv[i];
    auto const word = argument.substr(0, argument.find('='));
    if (word == "--") {
      break;
    }
    if (word.starts_with("--")) {
      auto const names = option_names(*at);
      auto const near = contains(names, word) ? std::string{} : nearest_of(word, names);
      if (!near.empty()) {
        return fmt::format("{}: did you mean {}?\n", word, near);
      }
    } else if (auto const* const command = command_named(*at, word)) {
      at = command;
    } else if (auto const near = nearest_of(word, command_names(*at)); !near.empty()) {
      return fmt::format("{}: did you mean {}?\n", word, near);
    }
  }
  return {};
}

}  // namespace zeroth::tools
