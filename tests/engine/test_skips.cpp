// SPDX-License-Identifier: Apache-2.0
/// Units that some ranks skip inside guards that other ranks hold open.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/random_nest.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

std::vector<std::uint32_t> train_nest(unsigned seed, int world, int stage, bool holds) {
  std::vector<std::vector<std::uint32_t>> bits(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    RandomNest nest{seed};
    bits[static_cast<std::size_t>(job.rank())] = nest.train(job, nest_config(seed, stage, holds), holds);
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : bits) {
    CHECK(each == bits.front());
  }
  return bits.front();
}

TEST_CASE(
    "random nested models train the same bits at every stage, whatever units ranks skip and guards they hold open") {
  for (unsigned seed = 0; seed < 36; ++seed) {
    int const world = 2 + static_cast<int>(seed % 3);
    for (bool const holds : {false, true}) {
      auto const plain = train_nest(seed, world, 0, holds);
      for (int stage = 1; stage <= 3; ++stage) {
        INFO(fmt::format("model {}, {} ranks, stage {}, guards held: {}", seed, world, stage, holds));
        CHECK(train_nest(seed, world, stage, holds) == plain);
      }
    }
  }
}

}  // namespace
}  // namespace zeroth::testing
