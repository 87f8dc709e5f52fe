// SPDX-License-Identifier: Apache-2.0
#include "comm/host_communicator.hpp"

#include "comm/board_communicator.hpp"
#include "comm/conformance_parts.hpp"
#include "comm/local_ranks.hpp"
#include "support/catch.hpp"

namespace zeroth::comm::conformance {
namespace {

TEST_CASE("what a transport inherits conforms: transactions, messages and splits") {
  int const world = GENERATE(1, 2, 3, 4);
  for (auto const& cases : {transaction_cases(), message_cases(), split_cases()}) {
    BoardRanks ranks{world};
    auto const problems = run_ranks(ranks.communicators(), [&](Rank& rank) {
      std::string all;
      for (auto const& each : cases) {
        if (auto const problem = problem_of(each, rank); !problem.empty()) {
          all += each.name + ": " + problem + "\n";
        }
      }
      return all;
    });
    for (auto const& problem : problems) {
      CAPTURE(world);
      CHECK(problem == "");
    }
  }
}

TEST_CASE("faults end every rank of a transport, and name who is missing or did something else") {
  int const world = GENERATE(2, 3);
  for (auto const& each : fault_cases()) {
    BoardRanks ranks{world};
    auto communicators = ranks.communicators();
    for (auto const& communicator : communicators) {
      communicator->set_options({.check = true});
    }
    auto const problems = run_ranks(std::move(communicators), [&](Rank& rank) { return problem_of(each, rank); });
    for (auto const& problem : problems) {
      CAPTURE(world, each.name);
      CHECK(problem == "");
    }
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
