// SPDX-License-Identifier: Apache-2.0
/// Engines that end while an exception passes by.
#include <exception>

#include "engine/small_model.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

struct EarlyStop : std::exception {};

/// All ranks leave an inner engine by an exception, and catch it; then they train on with an outer one.
Outcome leave_inner_engine(int stage, bool finishes) {
  return run_job(2, [&](Job& job) {
    SmallModel const small;
    Engine<float> outer{job, small.model, small_config(stage)};
    train(outer, small, 1);
    try {
      Engine<float> inner{job, small.model, small_config(stage)};
      train(inner, small, 1);
      if (!finishes) {
        all_micro_steps(inner, small);
      }
      throw EarlyStop{};
    } catch (EarlyStop const&) {
    }
    train(outer, small, 2);
  });
}

}  // namespace

TEST_CASE("an engine that has finished may be left by an exception: the others of the job go on") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    CHECK(messages_of(leave_inner_engine(stage, true)) == "");
  }
}

TEST_CASE("an engine that is left by an exception before it has finished ends the job") {
  for (int const stage : {0, 3}) {
    INFO("stage " << stage);
    CHECK_THAT(messages_of(leave_inner_engine(stage, false)), Contains("the engine of rank "));
  }
}

}  // namespace zeroth::testing
