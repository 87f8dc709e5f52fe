// SPDX-License-Identifier: Apache-2.0
/// Tests completion with the tool's scripts in shells, and its manual page.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "program_support.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {
namespace {

/// The completions that bash offers for the last of `words`, in order; "''" stands for a new word.
std::string offered(Folder const& folder, std::string const& words) {
  Child child{{.command = {"bash", "-c",
                           "source ./completion; COMP_WORDS=(" + words +
                               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _zeroth; echo ${COMPREPLY[*]}"},
               .folder = folder.path(),
               .environment = {}}};
  auto const ending = child.wait();
  CAPTURE(child.output());
  CHECK(ending.status == 0);
  return child.output();
}

struct Script {
  Folder folder;
  Script() { std::ofstream{folder / "completion"} << zeroth_tool("completion bash").output; }
};

TEST_CASE("bash completes commands, options and the words that options take") {
  Script const script;
  auto const after = [&](std::string const& words) { return offered(script.folder, words); };
  CHECK(after("zeroth pl") == "plan\n");
  CHECK(after("zeroth --ver") == "--version\n");
  CHECK(after("zeroth checkpoint ''") == "inspect verify diff export remove gc -h --help\n");
  CHECK(after("zeroth checkpoint v") == "verify\n");
  CHECK(after("zeroth checkpoint verify --j") == "--json\n");
  CHECK(after("zeroth plan --device-m") == "--device-memory\n");
  CHECK(after("zeroth plan --comm ''") == "local mpi nccl tcp\n");
  CHECK(after("zeroth plan --comm = t") == "tcp\n");
  CHECK(after("zeroth plan --model 12") == "124M 128B\n");
  CHECK(after("zeroth simulate --machine 8xH1") == "8xH100\n");
  CHECK(after("zeroth completion ''") == "-h --help bash zsh\n");
}

TEST_CASE("bash completes files where the tool takes files, and the program after --") {
  Script const script;
  for (auto const* const words :
       {"zeroth plan --config ''", "zeroth run --ranks 4 -- --ra", "zeroth config --given c"}) {
    INFO(words);
    CHECK(offered(script.folder, words) == "\n");  // bash then falls back to files
  }
  CHECK(contains(zeroth_tool("completion bash").output, "\ncomplete -o default -F _zeroth zeroth\n"));
}

TEST_CASE("zsh completes every command with its description") {
  auto const script = zeroth_tool("completion zsh").output;
  CHECK(script.starts_with("#compdef zeroth\n"));
  CHECK(contains(script, "names+=('plan:Prints the memory that each stage needs per rank')\n"));
  CHECK(contains(script, "options+=('--untied-head:Give the head its own matrix instead of the token embedding')\n"));
  CHECK(contains(script, "'plan:--comm') compadd -- local mpi nccl tcp; return ;;\n"));
  CHECK(contains(script, "'plan:--model') compadd -- 124M "));
  CHECK(contains(script, "This tool'\\''s manual page"));
}

TEST_CASE("the manual page has every command and option of the help") {
  auto const page = zeroth_tool("man").output;
  CHECK(page.starts_with(".TH ZEROTH 1 "));
  int options = 0;
  for (std::string const command :
       {"plan", "simulate", "config", "run", "checkpoint inspect", "checkpoint verify", "checkpoint diff",
        "checkpoint export", "checkpoint remove", "checkpoint gc", "env", "completion", "man"}) {
    INFO(command);
    CHECK(contains(page, "\n.SS \\fB" + command + "\\fR\n"));
    std::istringstream words{zeroth_tool(command + " --help").output};
    for (std::string word; words >> word;) {
      if (word.starts_with("--") && word.size() > 2) {
        auto name = word.substr(0, word.find_first_not_of("-abcdefghijklmnopqrstuvwxyz"));
        for (auto at = name.find('-'); at != std::string::npos; at = name.find('-', at + 2)) {
          name.insert(at, "\\");
        }
        INFO(name);
        CHECK(contains(page, "\\fB" + name + "\\fR"));
        ++options;
      }
    }
  }
  CHECK(options > 40);
}

TEST_CASE("a shell without a script is rejected") { check_refused("completion fish", "fish not in {bash,zsh}"); }

}  // namespace
}  // namespace zeroth::testing
