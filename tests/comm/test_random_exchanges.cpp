// SPDX-License-Identifier: Apache-2.0
/// A failure prints the seed; the environment variable ZEROTH_SEED repeats the run.
#include <string>
#include <vector>

#include "comm/random_exchanges.hpp"
#include "comm/tcp_ranks.hpp"
#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/sanitized.hpp"
#include "support/seeds.hpp"

namespace zeroth::comm::conformance {
namespace {

constexpr int rounds = testing::sanitized ? 60 : 300;

TEST_CASE("random collectives have the results of plain arithmetic, over threads") {
  int const world = GENERATE(1, 2, 3, 5);
  auto const seed = testing::fresh_seed();
  std::vector<std::string> problems(static_cast<std::size_t>(world));
  auto const outcome = testing::run_job(
      world, [&](Job& job) { problems[static_cast<std::size_t>(job.rank())] = random_exchanges(job, seed, rounds); });
  CAPTURE(world, seed);
  CHECK(testing::messages_of(outcome) == "");
  for (auto const& problem : problems) {
    CHECK(problem == "");
  }
}

TEST_CASE("random collectives have the results of plain arithmetic, over tcp") {
  auto const within = GENERATE(WithinMachine::memory, WithinMachine::network);
  int const world = GENERATE(2, 4);
  auto const seed = testing::fresh_seed();
  auto const exchange = [&](Rank& /*rank*/, std::unique_ptr<Communicator>& communicator) {
    detail::JobState state;
    state.communicator = std::move(communicator);
    std::string problem;
    {
      Job job = state.job();
      problem = random_exchanges(job, seed, rounds / 2);
    }
    communicator = std::move(state.communicator);
    return problem;
  };
  auto const problems = run_tcp_ranks(world, within, exchange);
  CAPTURE(world, seed);
  for (auto const& problem : problems) {
    CHECK(problem == "");
  }
}

}  // namespace
}  // namespace zeroth::comm::conformance
