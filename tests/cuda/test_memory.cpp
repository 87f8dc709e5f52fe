// SPDX-License-Identifier: Apache-2.0
/// The memory that the driver reports as used grows by the plan, and by contexts, which are measured beforehand.
#include "cuda/grown_memory.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {

TEST_CASE("the memory use that the driver reports grows by the planned amount") {
  for (int const world : {1, 4}) {
    for (int stage = 0; stage <= 3; ++stage) {
      begin_on({});
      auto const run = [](int ranks, auto const& rank_main) {
        return run_job(ranks, rank_main, {}, [](int /*rank*/) { return device::make_cuda_device(0); });
      };
      auto const grown = measure_growth(run, world, stage);
      INFO(tell(grown, "local", world, stage));
      // The difference may have either sign: an arena smaller than a piece may have found room in an existing one.
      auto const rounded = world * most_arenas * piece;
      CHECK(grown.states >= grown.planned - rounded);
      CHECK(grown.states <= grown.planned + rounded);
      CHECK(left_on_gpus() == "");
    }
  }
}

}  // namespace zeroth::testing
