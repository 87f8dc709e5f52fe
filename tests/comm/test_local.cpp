// SPDX-License-Identifier: Apache-2.0
#include "comm/conformance.hpp"
#include "comm/local_ranks.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("the local communicator conforms") {
  int const world = GENERATE(from_range(testing::worlds({1, 2, 3, 4, 5, 7}, {1, 5})));
  auto const cases = conformance_cases();
  // All cases use one communicator, as in a program: no case may affect later ones.
  auto const problems = run_ranks(world, [&](Rank& rank) { return problems_of(cases, rank); });
  for (auto const& problem : problems) {
    CAPTURE(world);
    CHECK(problem == "");
  }
}

TEST_CASE("local faults end every rank") {
  int const world = GENERATE(2, 3, 4);
  for (auto const& each : fault_cases()) {
    auto const problems = run_ranks(world, [&](Rank& rank) { return problem_of(each, rank); });
    for (auto const& problem : problems) {
      CAPTURE(world, each.name);
      CHECK(problem == "");
    }
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
