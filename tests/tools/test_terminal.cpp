// SPDX-License-Identifier: Apache-2.0
/// The program on terminals of several widths, with and without colours.
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "program_support.hpp"

namespace zeroth::testing {
namespace {

using Variables = std::map<std::string, std::string>;

/// The output of `zeroth WORDS` on a terminal, without the \r that a terminal adds.
std::string on_terminal(std::string const& words, int columns, Variables environment = {}) {
  std::vector<std::string> command{ZEROTH_TOOL};
  std::ranges::move(words_of(words), std::back_inserter(command));
  environment.insert({{"TERM", "xterm"}, {"NO_COLOR", ""}});
  Child child{{.command = command,
               .folder = ZEROTH_SOURCE_DIR,
               .environment = environment,
               .on_terminal = true,
               .columns = columns}};
  REQUIRE(child.wait().in_time);
  auto output = child.output();
  std::erase(output, '\r');
  return output;
}

std::string without_colours(std::string text) {
  for (auto at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b')) {
    text.erase(at, text.find('m', at) + 1 - at);
  }
  return text;
}

std::vector<std::string> lines_in(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream rest{text};
  for (std::string line; std::getline(rest, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> words_in(std::string const& text) {
  std::istringstream rest{text};
  return {std::istream_iterator<std::string>{rest}, {}};
}

/// A line of one word cannot be folded.
bool is_one_word(std::string const& line) { return words_in(line).size() <= 1; }

char const* const tried_commands[] = {"--help",
                                      "plan --help",
                                      "plan --model 7.5B --ranks 64 --device-memory 3",
                                      "simulate --model 7.5B --ranks 64",
                                      "config configs/zero3.json",
                                      "env"};

TEST_CASE("on a terminal no line is wider than that") {
  for (auto const* const words : tried_commands) {
    for (int const columns : {40, 80, 200}) {
      INFO("zeroth " << words << " at " << columns << " columns");
      auto const output = without_colours(on_terminal(words, columns));
      CHECK(output.size() > 100);
      for (auto const& line : lines_in(output)) {
        INFO(line);
        CHECK((line.size() <= static_cast<std::size_t>(columns) || is_one_word(line)));
      }
    }
  }
}

TEST_CASE("folded text has all words of the original text, in order") {
  for (auto const* const words : {"--help", "run --help", "config configs/zero3.json"}) {
    INFO("zeroth " << words);
    CHECK(words_in(without_colours(on_terminal(words, 60))) == words_in(zeroth_tool(words).output));
  }
}

TEST_CASE("lines are unchanged on a terminal of unknown width") {
  std::string const words = "plan --model 7.5B --ranks 64";
  CHECK(on_terminal(words, 0) == zeroth_tool(words).output);
}

TEST_CASE("verdicts have colours only on a terminal, and not with NO_COLOR") {
  auto const plain = zeroth_tool("config configs/zero3.json").output;
  CHECK_FALSE(contains(plain, "\x1b"));
  CHECK(contains(on_terminal("config configs/zero3.json", 0), "\x1b[32mcould start\x1b[0m"));
  CHECK(contains(on_terminal("plan --model 7.5B --ranks 64 --device-memory 3", 0), "\x1b[31mStage 3 does not fit"));
  CHECK(on_terminal("config configs/zero3.json", 0, {{"NO_COLOR", "1"}}) == plain);
  CHECK(on_terminal("config configs/zero3.json", 40, {{"TERM", "dumb"}}) == plain);
}

TEST_CASE("JSON is not folded and has no colours") {
  std::string const words = "config --json configs/zero3.json";
  CHECK(on_terminal(words, 40) == zeroth_tool(words).output);
}

}  // namespace
}  // namespace zeroth::testing
