// SPDX-License-Identifier: Apache-2.0
#include "run_support.hpp"

#include <signal.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace zeroth::testing {
namespace {

/// With several processes the attempt number comes from the environment: one of them may be killed before it counts.
constexpr auto prelude = R"(
note() { echo "$*" >> attempts; }
if [ -n "$RANK" ]; then
  set -- $((TORCHELASTIC_RESTART_COUNT + 1))
else
  echo >> started
  set -- $(wc -l < started)
fi
)";

}  // namespace

Child::Options zeroth_run(Words const& options, Words const& program, Folder const& folder) {
  Child::Options all{.command = {ZEROTH_TOOL, "run"}, .folder = folder.path(), .environment = {}};
  all.command.insert(all.command.end(), options.begin(), options.end());
  all.command.emplace_back("--");
  all.command.insert(all.command.end(), program.begin(), program.end());
  return all;
}

Child::Options zeroth_run_script(Words const& options, std::string const& script, Folder const& folder) {
  return zeroth_run(options, {"sh", "-c", prelude + script}, folder);
}

Child::Options zeroth_run_ranks(Words const& options, Words const& scenario, Folder const& folder) {
  Words program{ZEROTH_FAULT_PROGRAM};
  program.insert(program.end(), scenario.begin(), scenario.end());
  return zeroth_run(options, program, folder);
}

std::string lines_of(Folder const& folder, std::string const& name) {
  std::ifstream file{folder / name};
  std::string all;
  for (std::string line; std::getline(file, line);) {
    all += line + " ";
  }
  return all;
}

bool is_gone(int process) {
  for (int i = 0; i < 6000; ++i) {
    if (::kill(process, 0) != 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

int number_behind(std::string const& text, std::string const& words) {
  auto const at = text.find(words);
  if (at == std::string::npos) {
    throw std::runtime_error{"no '" + words + "' in: " + text};
  }
  return std::stoi(text.substr(at + words.size()));
}

}  // namespace zeroth::testing
