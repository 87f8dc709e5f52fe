// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <fmt/format.h>

#include <string_view>

#include <zeroth/core/error.hpp>
#include <zeroth/simulate/simulate.hpp>

namespace zeroth::tools {

Plan plan_of(PlanInput const& input) { return zeroth::plan(input.model, input.config, input.world, input.options); }

PlanInput changed(PlanInput const& input, std::string const& changes) {
  return {input.model, input.config.with(changes), input.world, input.options};
}

Config at_stage(Config const& config, int stage) {
  std::string_view const no_groups = stage == 0  ? R"(, "zero_hpz_partition_size": 1, "mics_shard_size": -1)"
                                     : stage < 3 ? R"(, "zero_hpz_partition_size": 1)"
                                                 : "";
  return config.with(fmt::format(R"({{"zero_optimization": {{"stage": {}{}}}}})", stage, no_groups));
}

PlanInput at_stage(PlanInput const& input, int stage) {
  return {input.model, at_stage(input.config, stage), input.world, input.options};
}

std::vector<StagePlan> plan_stages(PlanInput const& input) {
  auto const own = plan_of(input).settings.stage;
  std::vector<StagePlan> stages;
  for (int stage = 0; stage <= 3; ++stage) {
    StagePlan result;
    result.stage = stage;
    try {
      auto const here = at_stage(input, stage);
      result.plan = plan_of(here);
      result.bytes_sent_per_step = simulate::bytes_sent_per_step(here.model, here.config, here.world);
    } catch (ConfigError const& error) {
      if (stage == own) {
        throw;
      }
      result.plan.reset();
      result.refused = error.what();
    }
    stages.push_back(std::move(result));
  }
  return stages;
}

}  // namespace zeroth::tools
