// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_ranks.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("local counts beyond 2^31") {
  for (auto const& each : large_cases()) {
    for (auto const& problem : run_ranks(2, [&](Rank& rank) { return problem_of(each, rank); })) {
      CAPTURE(each.name);
      CHECK(problem == "");
    }
  }
}

TEST_CASE("tcp counts beyond 2^31") {
  auto const within = GENERATE(WithinMachine::memory, WithinMachine::network);
  for (auto const& each : large_cases()) {
    for (auto const& problem : run_tcp_ranks(2, within, [&](Rank& rank) { return problem_of(each, rank); })) {
      CAPTURE(each.name);
      CHECK(problem == "");
    }
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
