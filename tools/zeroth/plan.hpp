// SPDX-License-Identifier: Apache-2.0
/// What each stage of a file would hold on a rank: the library's own layout and plan, asked once for each.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/comm/communicator.hpp>
#include <zeroth/config/config.hpp>
#include <zeroth/engine/plan.hpp>
#include <zeroth/model/model.hpp>

namespace zeroth::tools {

/// What is planned.
struct PlanInput {
  Model model;
  Config config;
  int world = 1;
  zeroth::PlanOptions options;  ///< What ranks talk through, and compute on.
};

/// A stage in place of the file's, everything else as the file says.
struct StagePlan {
  int stage = 0;
  std::optional<Plan> plan;
  std::int64_t bytes_sent_per_step = 0;  ///< By a rank; see simulate::bytes_sent_per_step().
  std::string refused;                   ///< Without plan: why the file cannot be used at this stage.
};

/// Throws ConfigError if the file does not suit the world.
[[nodiscard]] Plan plan_of(PlanInput const& input);
/// `input` with changes of its file; see Config::with.
[[nodiscard]] PlanInput changed(PlanInput const& input, std::string const& changes);
/// Another stage, everything else as the file says, but for groups that have what this stage does not cut.
[[nodiscard]] Config at_stage(Config const& config, int stage);
[[nodiscard]] PlanInput at_stage(PlanInput const& input, int stage);
/// Stages 0 to 3. Throws ConfigError if the file does not suit the world at its own stage; at another one that is
/// written down, because what a file leaves out may depend on the stage.
[[nodiscard]] std::vector<StagePlan> plan_stages(PlanInput const& input);

}  // namespace zeroth::tools
