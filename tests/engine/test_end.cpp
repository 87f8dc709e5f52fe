// SPDX-License-Identifier: Apache-2.0
/// Engines destroyed by an exception.
#include <exception>

#include "engine/small_model.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

struct EarlyStop : std::exception {};

/// All ranks leave an inner engine by an exception, catch it, and train on with an outer one.
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

TEST_CASE("an exception after finish() may destroy an engine, and the other ranks continue") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    CHECK(messages_of(leave_inner_engine(stage, true)) == "");
  }
}

TEST_CASE("an exception that destroys an engine before finish() ends the job") {
  for (int const stage : {0, 3}) {
    INFO("stage " << stage);
    CHECK_THAT(messages_of(leave_inner_engine(stage, false)), Contains("the engine of rank "));
  }
}

TEST_CASE("an engine of a part of the job that fails is named by its rank in the job") {
  for (int const stage : {0, 3}) {
    INFO("stage " << stage);
    auto const outcome = run_job(4, [&](Job& job) {
      auto part = job.split(job.rank() / 2, job.rank(), "half");
      SmallModel const small;
      Engine<float> engine{part, small.model, small_config(stage)};
      train(engine, small, 1);
      if (job.rank() == 3) {
        all_micro_steps(engine, small);
        throw EarlyStop{};
      }
      train(engine, small, 2);
    });
    REQUIRE(outcome[2]);  // it is rank 0 of its part, and rank 3 is rank 1
    CHECK_THAT(message_of(outcome[2]), Contains("the engine of rank 3 ended by an error"));
  }
}

}  // namespace zeroth::testing
