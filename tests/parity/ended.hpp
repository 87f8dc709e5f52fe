// SPDX-License-Identifier: Apache-2.0
/// Runs jobs of threads that train the synthetic model, and returns everything at their end.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/saved.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "train.hpp"

namespace zeroth::testing {

/// Returns the bits of reports, evaluations and weights.
inline std::vector<std::uint32_t> trained(int world, Config const& config, TrainOptions const& options = {},
                                          Wrap const& wrap = {}, MakeDevice const& make_device = {}) {
  auto const result = train(world, config, options, wrap, make_device);
  REQUIRE(result.reports.size() == static_cast<std::size_t>(options.steps));
  REQUIRE(std::isfinite(result.reports.back().loss));
  return bits_of(result);
}

using Ended = std::pair<std::vector<std::uint32_t>, std::map<std::string, std::vector<std::byte>>>;

/// Like trained(), and returns all states at the end.
inline Ended ended(int world, Config const& config, TrainOptions options = {}, Wrap const& wrap = {},
                   MakeDevice const& make_device = {}) {
  Folder const folder;
  options.after_step = [&](AnyEngine& engine, int step) {
    if (step == options.steps) {
      engine.save(folder.path()).wait();
    }
  };
  auto bits = trained(world, config, options, wrap, make_device);
  return {std::move(bits), states_in(folder / fmt::format("step_{:08}", options.steps))};
}

}  // namespace zeroth::testing
