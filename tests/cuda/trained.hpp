// SPDX-License-Identifier: Apache-2.0
/// Trains the synthetic model by a whole job, wherever its ranks are, and checks results that must be the same on all
/// of them.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/dtype_sets.hpp"
#include "support/job.hpp"
#include "support/synthetic.hpp"

namespace zeroth::testing {

/// Runs a function on all ranks of a job of so many.
using RunJob = std::function<Outcome(int world, std::function<void(Job&)> const& rank_main)>;

/// Rank 0's results. No rank may have failed; all must have the same results, and have used the planned memory.
inline Trained train_by(RunJob const& run, int world, std::string const& text, TrainOptions const& options = {}) {
  auto const config = Config::from_json(text);
  std::vector<Trained> results(static_cast<std::size_t>(world));
  auto const outcome = run(
      world, [&](Job& job) { results[static_cast<std::size_t>(job.rank())] = train_synthetic(job, config, options); });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& result : results) {
    REQUIRE(bits_of(result) == bits_of(results.front()));
    REQUIRE(result.planned == result.peak);
  }
  return results.front();
}

/// Runs ranks as threads, on devices from `make_device`.
inline RunJob threads_on(MakeDevice make_device) {
  return [make_device = std::move(make_device)](int world, std::function<void(Job&)> const& rank_main) {
    return run_job(world, rank_main, {}, make_device);
  };
}
inline Trained train_on_cpu(int world, std::string const& text) { return train_by(threads_on({}), world, text); }

/// A stage file with more keys of zero_optimization, each with a leading comma.
inline std::string with_zero_keys(std::string text, std::string const& keys) {
  std::string const before = R"("zero_optimization": {"stage": )";
  return text.insert(text.find(before) + before.size() + 1, keys);
}

}  // namespace zeroth::testing
