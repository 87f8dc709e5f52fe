// SPDX-License-Identifier: Apache-2.0
/// Plans what each stage would hold on a rank, with the library's own layout and plan.
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

/// The input of a plan.
struct PlanInput {
  Model model;
  Config config;
  int world = 1;
  zeroth::PlanOptions options;  ///< Transport, and device of the ranks.
};

/// The plan at another stage, with all other settings from the file.
struct StagePlan {
  int stage = 0;
  std::optional<Plan> plan;
  std::int64_t bytes_sent_per_step = 0;  ///< Per rank; see simulate::bytes_sent_per_step().
  std::string refused;                   ///< If there is no plan, the reason why the file cannot be used at this stage.
};

/// Throws ConfigError if the file does not fit the world.
[[nodiscard]] Plan plan_of(PlanInput const& input);
/// `input` with changes to its file; see Config::with.
[[nodiscard]] PlanInput changed(PlanInput const& input, std::string const& changes);
/// The file at another stage. Drops group settings for states that this stage does not shard.
[[nodiscard]] Config at_stage(Config const& config, int stage);
[[nodiscard]] PlanInput at_stage(PlanInput const& input, int stage);
/// Plans stages 0 to 3. Throws ConfigError if the file does not fit the world at its own stage. At another stage it
/// stores the error, because defaults of the file may depend on the stage.
[[nodiscard]] std::vector<StagePlan> plan_stages(PlanInput const& input);

}  // namespace zeroth::tools
