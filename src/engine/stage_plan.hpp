// SPDX-License-Identifier: Apache-2.0
/// Plans the actions and messages of a pipeline stage in a step.
#pragma once
#include <string>
#include <vector>

#include "engine/channels.hpp"
#include "stage/pipeline.hpp"
#include "stage/sweep.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::engine {

struct StagePlan {
  Script script;                     ///< The step's actions.
  std::vector<stage::Sweep> sweeps;  ///< The turns of each action.
  ChannelSizes messages;
};

/// The plan of the stage that `part` belongs to. `source`: the stage file, for messages. Throws ConfigError for more
/// micro-steps than lists support, and for a schedule file that cannot be read.
[[nodiscard]] StagePlan stage_plan_of(model::Description const& part, Settings const& settings,
                                      std::string const& source);

/// The lists of all stages. stage::check() has yet to test that those of a file terminate.
[[nodiscard]] std::vector<stage::Actions> lists_of(Settings const& settings);
[[nodiscard]] stage::PipelineSize size_of(Settings const& settings) noexcept;

}  // namespace zeroth::engine
