// SPDX-License-Identifier: Apache-2.0
/// From a stage's part of a model and the settings to what the stage does in a step, and what it sends for that.
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
  Script script;                     ///< Of a step.
  std::vector<stage::Sweep> sweeps;  ///< What its actions do with units, one each.
  ChannelSizes messages;
};

/// Of the stage that `part` says. `source`: the stage file, for messages. Throws ConfigError for more micro-steps than
/// lists are made for, and for a file with a schedule that cannot be read.
[[nodiscard]] StagePlan stage_plan_of(model::Description const& part, Settings const& settings,
                                      std::string const& source);

/// The lists of all stages; nobody has checked yet that a file's end.
[[nodiscard]] std::vector<stage::Actions> lists_of(Settings const& settings);
[[nodiscard]] stage::PipelineSize size_of(Settings const& settings) noexcept;

}  // namespace zeroth::engine
