// SPDX-License-Identifier: Apache-2.0
/// Trains the small model for tests of its reports.
#pragma once
#include <functional>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {

struct Seen {
  std::vector<StepReport> reports;
  std::vector<float> weights;
};

using Body = std::function<Seen(Job&, Engine<float>&, SmallModel const&)>;

/// Runs `body` on every rank, and returns what each of them observed.
inline std::vector<Seen> run(int world, Config const& config, Body const& body) {
  std::vector<Seen> seen(static_cast<std::size_t>(world));
  auto const outcome = run_job(world, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, config};
    seen[static_cast<std::size_t>(job.rank())] = body(job, engine, small);
  });
  REQUIRE(messages_of(outcome) == "");
  return seen;
}

inline std::vector<StepReport> train_reports(int world, Config const& config, int steps) {
  return run(world, config,
             [&](Job&, Engine<float>& engine, SmallModel const& small) {
               return Seen{train(engine, small, steps), {}};
             })
      .front()
      .reports;
}

}  // namespace zeroth::testing
