// SPDX-License-Identifier: Apache-2.0
/// Compares the output in the documents with that of the program.
#include <vector>

#include "program_support.hpp"
#include "shown_support.hpp"
#include "support/sanitized.hpp"

namespace zeroth::testing {
namespace {

TEST_CASE("docs show the tool's output, or consecutive lines of it") {
  struct Document {
    char const* name;
    std::size_t commands;
  };
  std::vector<Document> const documents{{"docs/plan.md", 1}, {"docs/simulate.md", 3}, {"docs/3d.md", 3}};
  for (auto const& [name, commands] : zeroth::testing::sampled(documents, 3)) {
    auto const shown = shown_in(document(name));
    CHECK(shown.size() >= commands);
    for (auto const& [command, output] : shown) {
      INFO(name << ": zeroth " << command);
      auto const result = zeroth_tool(command);
      CHECK(result.status == 0);
      CHECK(output.size() > 100);
      INFO(result.output);
      CHECK(contains("\n" + result.output, "\n" + output));
    }
  }
}

TEST_CASE("docs/simulate.md shows a machine's file unchanged") {
  CHECK(contains(document("docs/simulate.md"), "```json\n" + document("configs/machines/8xH100.json") + "```\n"));
}

TEST_CASE("docs/plan.md shows the tool's advice") {
  auto const text = zeroth_tool("plan --model 7.5B --ranks 64 --device-memory 3").output;
  auto const advice = text.find("Stage 3 does not fit");
  REQUIRE(advice != std::string::npos);
  CHECK(contains(document("docs/plan.md"), "```\n" + text.substr(advice) + "```\n"));
}

}  // namespace
}  // namespace zeroth::testing
