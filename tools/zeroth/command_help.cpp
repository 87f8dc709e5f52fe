// SPDX-License-Identifier: Apache-2.0
#include "command_help.hpp"

#include <fmt/format.h>

#include <string_view>

namespace zeroth::tools {
namespace {

/// The words of a type such as "TEXT:{local,tcp}": local, tcp.
std::vector<std::string> words_in(std::string_view type) {
  auto const begin = type.find(":{");
  std::vector<std::string> words;
  if (begin == std::string_view::npos || !type.ends_with('}')) {
    return words;
  }
  auto list = type.substr(begin + 2, type.size() - begin - 3);
  while (!list.empty()) {
    auto const word = list.substr(0, list.find(','));
    words.emplace_back(word);
    list.remove_prefix(word.size() < list.size() ? word.size() + 1 : word.size());
  }
  return words;
}

OptionHelp help_of(CLI::Option const& option) {
  OptionHelp help;
  for (auto const& name : option.get_snames()) {
    help.names.push_back("-" + name);
  }
  for (auto const& name : option.get_lnames()) {
    help.names.push_back("--" + name);
  }
  if (!option.nonpositional()) {
    help.names.push_back(option.get_name());
  }
  auto const type = option.get_items_expected_max() == 0 ? std::string{} : option.get_type_name();
  help.value = type.substr(0, type.find(':'));
  help.words = words_in(type);
  help.text = option.get_description();
  help.otherwise = option.get_default_str();
  help.is_required = option.get_required();
  return help;
}

void add_options(CLI::App const& app, CommandHelp& help) {
  for (auto const* const option : app.get_options()) {
    if (app.get_name().empty() && option == app.get_help_ptr()) {
      continue;  // a group's help belongs to its command
    }
    (option->nonpositional() ? help.options : help.arguments).push_back(help_of(*option));
  }
  for (auto const* const group : app.get_subcommands([](CLI::App const* each) { return each->get_name().empty(); })) {
    add_options(*group, help);
  }
}

CommandHelp help_below(CLI::App const& app, std::string const& path) {
  CommandHelp help{path, app.get_name(), app.get_description(), app.get_footer(), {}, {}, {}};
  add_options(app, help);
  for (auto const* const command :
       app.get_subcommands([](CLI::App const* each) { return !each->get_name().empty(); })) {
    auto const& name = command->get_name();
    help.commands.push_back(help_below(*command, path.empty() ? name : fmt::format("{} {}", path, name)));
  }
  return help;
}

}  // namespace

CommandHelp help_of(CLI::App const& app) { return help_below(app, {}); }

std::vector<CommandHelp const*> all_commands(CommandHelp const& command) {
  std::vector<CommandHelp const*> all{&command};
  for (auto const& below : command.commands) {
    auto const more = all_commands(below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace zeroth::tools
