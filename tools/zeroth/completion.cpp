// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string_view>
#include <vector>

#include <zeroth/simulate/machine.hpp>
#include <zeroth/version.hpp>

#include "presets.hpp"

namespace zeroth::tools {
namespace {

/// Words that an option takes, possibly besides files.
std::vector<std::string> words_of(OptionHelp const& option) {
  auto words = option.words;
  for (auto const& name : option.names) {
    if (name == "--model") {
      for (auto const& preset : presets()) {
        words.emplace_back(preset.name);
      }
    } else if (name == "--machine") {
      auto const machines = simulate::machine_presets();
      words.insert(words.end(), machines.begin(), machines.end());
    }
  }
  return words;
}

/// Patterns of `case`, "plan:--comm|plan:-c", that match the option after the command.
std::string patterns_of(CommandHelp const& command, OptionHelp const& option) {
  std::vector<std::string> patterns;
  for (auto const& name : option.names) {
    patterns.push_back(fmt::format("'{}:{}'", command.path, name));
  }
  return fmt::format("{}", fmt::join(patterns, "|"));
}

/// Patterns of `case` that match the path of each command below the program, read from left to right.
std::string cases_of_paths(CommandHelp const& program) {
  std::vector<std::string> paths;
  for (auto const* const command : all_commands(program)) {
    if (!command->path.empty()) {
      paths.push_back(fmt::format("'{}'", command->path));
    }
  }
  return fmt::format("{}", fmt::join(paths, "|"));
}

/// Cases for options whose value comes next. `list` gives the shell words, with or without files; `files` gives it
/// files alone.
template <class List>
std::string cases_of_values(CommandHelp const& program, List const& list, std::string_view files) {
  std::string cases;
  for (auto const* const command : all_commands(program)) {
    for (auto const& option : command->options) {
      if (!option.value.empty()) {
        auto const words = words_of(option);
        cases += fmt::format("    {}) {} ;;\n", patterns_of(*command, option),
                             words.empty() ? std::string{files} : list(words, option.words.empty()));
      }
    }
  }
  return cases;
}

std::vector<std::string> names_in(CommandHelp const& command) {
  std::vector<std::string> names;
  for (auto const& below : command.commands) {
    names.push_back(below.name);
  }
  for (auto const& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  for (auto const& argument : command.arguments) {
    auto const words = words_of(argument);
    names.insert(names.end(), words.begin(), words.end());
  }
  return names;
}

/// For zsh: a name and its phrase, in quotes.
std::string described(std::string_view name, std::string_view text) {
  std::string quoted = "'";
  for (char const letter : name) {
    quoted += letter == ':' ? "\\:" : std::string(1, letter);
  }
  quoted += ":";
  for (char const letter : text) {
    quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  }
  return quoted + "'";
}

}  // namespace

std::string bash_completion(CommandHelp const& program) {
  auto const as_list = [](std::vector<std::string> const& words, bool /*with_files: where none of these fits*/) {
    return fmt::format("words='{}'", fmt::join(words, " "));
  };
  std::string words;
  for (auto const* const command : all_commands(program)) {
    words += fmt::format("    '{}') words='{}' ;;\n", command->path, fmt::join(names_in(*command), " "));
  }
  return fmt::format(
      R"(# Completion for bash, made by `zeroth completion bash`.
_zeroth() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command='' each words=''
  COMPREPLY=()
  [ "$before" != = ] || before=${{COMP_WORDS[COMP_CWORD - 2]}}
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [ "$each" != -- ] || return 0
    case "${{command:+$command }}$each" in
      {}) command="${{command:+$command }}$each" ;;
    esac
  done
  case "$command" in
{}  esac
  case "$command:$before" in
{}  esac
  [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _zeroth zeroth
)",
      cases_of_paths(program), words, cases_of_values(program, as_list, "words=''"));
}

std::string zsh_completion(CommandHelp const& program) {
  auto const as_list = [](std::vector<std::string> const& words, bool with_files) {
    return fmt::format("compadd -- {}; {}return", fmt::join(words, " "), with_files ? "_files; " : "");
  };
  std::string names;
  for (auto const* const command : all_commands(program)) {
    names += fmt::format("    '{}')\n", command->path);
    for (auto const& below : command->commands) {
      names += fmt::format("      names+=({})\n", described(below.name, below.text));
    }
    for (auto const& option : command->options) {
      for (auto const& name : option.names) {
        names += fmt::format("      options+=({})\n", described(name, option.text));
      }
    }
    for (auto const& argument : command->arguments) {
      for (auto const& word : words_of(argument)) {
        names += fmt::format("      names+=({})\n", described(word, argument.text));
      }
    }
    names += "      ;;\n";
  }
  return fmt::format(
      R"(#compdef zeroth
# Completion for zsh, made by `zeroth completion zsh`.
_zeroth() {{
  local before=${{words[CURRENT-1]}} command='' each
  local -a names options
  for each in ${{words[2,CURRENT-1]}}; do
    [[ $each != -- ]] || {{ _files; return }}
    case "${{command:+$command }}$each" in
      {}) command="${{command:+$command }}$each" ;;
    esac
  done
  case "$command:$before" in
{}  esac
  case "$command" in
{}  esac
  if [[ ${{words[CURRENT]}} == -* ]]; then
    _describe -o option options
  elif (( $#names )); then
    _describe command names
  else
    _files
  fi
}}
if [[ $funcstack[1] == _zeroth ]]; then _zeroth "$@"; else compdef _zeroth zeroth; fi
)",
      cases_of_paths(program), cases_of_values(program, as_list, "_files; return"), names);
}

void add_completion_commands(CLI::App& app, Page& page) {
  auto* const completion = app.add_subcommand("completion", "A script that completes this tool's words in a shell");
  auto const shell = std::make_shared<std::string>();  // shared with the callback
  completion->add_option("shell", *shell, "Which")->required()->check(CLI::IsMember{{"bash", "zsh"}});
  completion->footer("For this session: source <(zeroth completion bash)");
  completion->callback([shell, &app, &page] {
    auto const help = help_of(app);
    page.add_data(*shell == "bash" ? bash_completion(help) : zsh_completion(help));
  });
  app.add_subcommand("man", "This tool's manual page: zeroth man >zeroth.1")->callback([&app, &page] {
    page.add_data(man_page(help_of(app), std::string{version}));
  });
}

}  // namespace zeroth::tools
