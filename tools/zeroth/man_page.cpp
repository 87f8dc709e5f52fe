// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "completion.hpp"

namespace zeroth::tools {
namespace {

constexpr std::string_view other_parts = R"(.SH ENVIRONMENT
.TP
.B NO_COLOR
Set to anything, it leaves out colours on a terminal.
.TP
.B TERM
Where it is dumb, lines are neither folded nor coloured.
.SH SEE ALSO
The documents that are installed beside the tool: docs/tool.md, and the page of each command that it names.
)";

/// Escapes text for roff: hyphens can be copied, and nothing is taken as a request.
std::string in_roff(std::string_view text) {
  std::string roff;
  bool begins_line = true;
  for (char const letter : text) {
    if (begins_line && (letter == '.' || letter == '\'')) {
      roff += "\\&";
    }
    roff += letter == '\\' ? "\\e" : letter == '-' ? "\\-" : std::string(1, letter);
    begins_line = letter == '\n';
  }
  return roff;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", in_roff(text)); }
std::string slanted(std::string_view text) { return fmt::format("\\fI{}\\fR", in_roff(text)); }

std::string capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return text;
}

/// Its names, its value, and the phrase of the help.
std::string option_text(OptionHelp const& option, bool is_argument) {
  std::string names;
  for (auto const& name : option.names) {
    names += (names.empty() ? "" : ", ") + (is_argument ? slanted(name) : bold(name));
  }
  if (!option.words.empty()) {
    names += fmt::format(" {}", in_roff(fmt::format("{}", fmt::join(option.words, "|"))));
  } else if (!option.value.empty() && !is_argument) {
    names += " " + slanted(option.value);
  }
  auto text = option.text.empty() ? std::string{} : option.text + ".";
  if (!option.otherwise.empty()) {
    text += fmt::format(" Without it {}.", option.otherwise);
  }
  return fmt::format(".TP\n{}\n{}{}\n", names, option.is_required ? "Required. " : "", in_roff(text));
}

std::string command_text(CommandHelp const& command) {
  auto synopsis = bold("zeroth" + (command.path.empty() ? "" : " " + command.path));
  synopsis += command.options.empty() ? "" : " [" + slanted("options") + "]";
  for (auto const& argument : command.arguments) {
    synopsis += " " + slanted(argument.names.front());
  }
  auto text = fmt::format(".SS {}\n{}\n.PP\n{}.\n", bold(command.path), synopsis, in_roff(command.text));
  for (auto const& argument : command.arguments) {
    text += option_text(argument, true);
  }
  for (auto const& option : command.options) {
    text += option_text(option, false);
  }
  return command.footer.empty() ? text : text + fmt::format(".PP\n{}\n", in_roff(command.footer));
}

}  // namespace

std::string man_page(CommandHelp const& program, std::string const& version) {
  auto text = fmt::format(".TH {} 1 \"\" \"{} {}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{} {} [{}]\n",
                          capitals(program.name), program.name, version, program.name, in_roff(program.text),
                          bold(program.name), slanted("command"), slanted("options"));
  text += ".SH OPTIONS\n";
  for (auto const& option : program.options) {
    text += option_text(option, false);
  }
  text += ".SH COMMANDS\n";
  for (auto const* const command : all_commands(program)) {
    if (!command->path.empty() && command->commands.empty()) {
      text += command_text(*command);
    }
  }
  return text + std::string{other_parts};
}

}  // namespace zeroth::tools
