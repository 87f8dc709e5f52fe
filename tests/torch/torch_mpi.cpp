// SPDX-License-Identifier: Apache-2.0
/// Processes train modules as threads do, bit for bit. Run by mpirun, and by zeroth run over tcp; every rank compares
/// itself with a job of as many threads in its own process.
#include <string>

#include "support/process_transport.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

TEST_CASE("processes train modules as threads do, at every stage") {
  for (auto const make : {gpt_program, vision_program, odd_program}) {
    for (int stage : {0, 1, 2, 3}) {
      int world = 0;
      Trained mine;
      int const status = torch_adapter::launch({.transport = process_transport()}, [&](Job& job) {
        world = job.world();
        mine = train(job, File{.stage = stage}.config(), make);
      });
      REQUIRE(status == 0);
      auto const theirs = train_on_threads(world, File{}.config(), make);
      INFO("stage " << stage << " on " << world << " ranks");
      CHECK(bits_of(mine) == bits_of(theirs));
      CHECK(mine.planned == mine.peak);
    }
  }
}

}  // namespace
}  // namespace zeroth::testing
