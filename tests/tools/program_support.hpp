// SPDX-License-Identifier: Apache-2.0
/// Runs the program `zeroth` as users do.
#pragma once
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth::testing {

struct ToolResult {
  int status;
  std::string output;
};

/// Runs `zeroth WORDS`.
inline ToolResult zeroth_tool(std::string const& words, std::filesystem::path const& folder = ZEROTH_SOURCE_DIR) {
  std::vector<std::string> command{ZEROTH_TOOL};
  std::ranges::move(words_of(words), std::back_inserter(command));
  Child child{{.command = command, .folder = folder, .environment = {}}};
  auto const ending = child.wait();
  REQUIRE(ending.in_time);
  return {ending.status, child.output()};
}

inline bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

/// Checks that a command line is rejected: exit status 2, and the reason.
inline void check_refused(std::string const& words, std::string const& why) {
  auto const result = zeroth_tool(words);
  INFO("zeroth " << words << "\n" << result.output);
  CHECK(result.status == 2);
  CHECK(contains(result.output, why));
}

/// Checks that a file or model is rejected: exit status 1, and the reason.
inline void check_failed(std::string const& words, std::string const& why,
                         std::filesystem::path const& folder = ZEROTH_SOURCE_DIR) {
  auto const result = zeroth_tool(words, folder);
  INFO("zeroth " << words << "\n" << result.output);
  CHECK(result.status == 1);
  CHECK(contains(result.output, "zeroth: " + why));
}

}  // namespace zeroth::testing
