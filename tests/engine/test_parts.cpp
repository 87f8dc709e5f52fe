// SPDX-License-Identifier: Apache-2.0
/// Engines on a part of a job, in which ranks have other numbers: messages use the numbers of the job.
#include <functional>
#include <string>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// The error of the last of four ranks when it and the rank before it run `body` on a part of the job, in which it is
/// rank 0. `body` gets the rank in the job.
std::string told_in_part(std::function<void(Job&, int)> const& body) {
  auto const outcome = run_job(4, [&](Job& job) {
    auto const rank = job.rank();
    auto part = job.split(rank / 2, -rank, "half");
    if (rank >= 2) {
      body(part, rank);
    }
  });
  return message_of(outcome[3]);
}

/// Like told_in_part(), with an engine.
std::string told_engine(int stage, std::function<void(Engine<float>&, SmallModel const&, int)> const& body) {
  return told_in_part([&](Job& part, int rank) {
    SmallModel const small;
    Engine<float> engine{part, small.model, small_config(stage)};
    body(engine, small, rank);
  });
}

}  // namespace

TEST_CASE("differences between ranks of a part are reported with their ranks in the job") {
  for (int const stage : {0, 3}) {
    INFO("stage " << stage);
    CHECK_THAT(told_in_part([&](Job& part, int rank) {
                 SmallModel const small;
                 Engine<float> const engine{part, small.model, small_config(stage, {.accumulation = rank})};
               }),
               Contains("ranks 3 and 2 built an engine from different stage files"));
    CHECK_THAT(told_engine(stage,
                           [](Engine<float>& engine, SmallModel const& small, int rank) {
                             engine.write(small.weights[1], std::vector<float>(300, static_cast<float>(rank)));
                           }),
               Contains("write(): ranks 3 and 2 gave different values for parameter \"block1.w\""));
  }
  CHECK_THAT(told_in_part([](Job& part, int rank) {
               Model model;
               static_cast<void>(model.param(model.unit("u"), "w", {400}, PerElement{[rank](std::int64_t element) {
                                               return rank == 2 && element == 20 ? 1.0F : 2.0F;
                                             }}));
               Engine<float> const engine{part, model, small_config(0)};
             }),
             Contains("rank 2's unit \"u\" differs from rank 3's after initialisation"));
}

TEST_CASE("different paths of ranks of a part are reported with their ranks in the job") {
  CHECK_THAT(told_engine(1,
                         [](Engine<float>& engine, SmallModel const& small, int rank) {
                           for (auto micro : engine.micro_steps()) {
                             for (std::size_t const u : {rank == 2 ? 1U : 0U, rank == 2 ? 0U : 1U, 2U}) {
                               auto const p = micro.forward(small.units[u]);
                             }
                             backward(micro, small, micro.report_loss(1));
                           }
                           engine.step();
                           engine.finish();
                         }),
             Contains("as call 2 of the step, rank 3 made forward of unit \"block0\", rank 2 made forward of unit "
                      "\"block1\""));
}

TEST_CASE("a failure of one rank of a part is reported with its rank in the job") {
  Folder const folder;
  CHECK(messages_of(run_job(1, [&](Job& job) {
          SmallModel const small;
          Engine<float>{job, small.model, small_config(0)}.save_weights(folder / "there");
        })).empty());
  CHECK_THAT(told_engine(3, [&](Engine<float>& engine, SmallModel const&,
                                int rank) { engine.load_weights(folder / (rank == 2 ? "none" : "there")); }),
             Contains("load_weights() failed and changed nothing: rank 2: ") && Contains("cannot be opened"));
}

}  // namespace zeroth::testing
