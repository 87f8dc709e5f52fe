// SPDX-License-Identifier: Apache-2.0
#include "mistyped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <zeroth/config/nearest.hpp>

namespace zeroth::tools {
namespace {

CLI::App const* command_named(CLI::App const& app, std::string_view name) {
  for (auto const* const command : app.get_subcommands([](CLI::App const*) { return true; })) {
    if (command->get_name() == name) {
      return command;
    }
  }
  return nullptr;
}

/// Its own, and those of its groups, which are apps without a name.
std::vector<std::string> option_names(CLI::App const& app) {
  std::vector<std::string> names;
  for (auto const* const group : app.get_subcommands([](CLI::App const* each) { return each->get_name().empty(); })) {
    auto const theirs = option_names(*group);
    names.insert(names.end(), theirs.begin(), theirs.end());
  }
  for (auto const* const option : app.get_options()) {
    for (auto const& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> command_names(CLI::App const& app) {
  std::vector<std::string> names;
  for (auto const* const command :
       app.get_subcommands([](CLI::App const* each) { return !each->get_name().empty(); })) {
    names.push_back(command->get_name());
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
  auto const* at = &app;
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
