// SPDX-License-Identifier: Apache-2.0
/// Runs a job of threads that trains the synthetic model.
#pragma once
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/job.hpp"
#include "support/synthetic.hpp"

namespace zeroth::testing {

[[nodiscard]] inline std::vector<std::uint32_t> bits_of(std::vector<float> const& values) {
  std::vector<std::uint32_t> bits;
  for (auto const value : values) {
    bits.push_back(bits_of_number(value));
  }
  return bits;
}

/// Returns rank 0's results. Requires that the job succeeds and that all ranks have the same results.
inline Trained train(int world, Config const& config, TrainOptions const& options = {}, Wrap const& wrap = {},
                     MakeDevice const& make_device = {}) {
  std::vector<Trained> results(static_cast<std::size_t>(world));
  auto const outcome = run_job(
      world, [&](Job& job) { results[static_cast<std::size_t>(job.rank())] = train_synthetic(job, config, options); },
      wrap, make_device);
  REQUIRE(messages_of(outcome) == "");
  for (auto const& result : results) {
    REQUIRE(bits_of(result) == bits_of(results.front()));
    REQUIRE(result.planned == result.peak);
  }
  return results.front();
}

inline Trained train(int world, std::string const& text, TrainOptions const& options = {}, Wrap const& wrap = {}) {
  return train(world, Config::from_json(text), options, wrap);
}

}  // namespace zeroth::testing
