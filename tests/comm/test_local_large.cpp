// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_ranks.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("the local communicator moves more than 2^31 elements") {
  for (auto const& each : large_cases()) {
    for (auto const& problem : run_ranks(2, [&](Rank& rank) { return problem_of(each, rank); })) {
      CAPTURE(each.name);
      CHECK(problem == "");
    }
  }
}

TEST_CASE("the tcp communicator moves more than 2^31 elements") {
  auto const within = GENERATE(WithinMachine::memory, WithinMachine::network);
  auto cases = large_cases();
  if (within == WithinMachine::network) {  // all blocks then move like messages, so the longest case is enough
    std::erase_if(cases, [](Case const& each) { return each.name.find("receive") == std::string::npos; });
    REQUIRE(cases.size() == 1);
  }
  for (auto const& each : cases) {
    for (auto const& problem : run_tcp_ranks(2, within, [&](Rank& rank) { return problem_of(each, rank); })) {
      CAPTURE(each.name);
      CHECK(problem == "");
    }
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
