// SPDX-License-Identifier: Apache-2.0
/// A plan for people, and for programs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "advice.hpp"
#include "model_source.hpp"
#include "paper.hpp"
#include "plan.hpp"

namespace zeroth::tools {

/// All that `zeroth plan` found.
struct PlanResult {
  SourcedModel model;
  PlanInput input;
  std::string config_file;                   ///< Empty: there was none.
  Plan asked_for;                            ///< As the file says.
  std::vector<StagePlan> stages;             ///< 0 to 3.
  std::optional<std::int64_t> device_bytes;  ///< Of memory, to fit into.
  std::optional<Advice> advice;              ///< Where the stage asked for does not fit.
};

/// The file's; 3 where there is no file.
[[nodiscard]] inline int stage_asked_for(PlanResult const& result) { return result.asked_for.settings.stage; }

[[nodiscard]] std::string as_text(PlanResult const& result, Paper const& paper = {});
[[nodiscard]] std::string as_json(PlanResult const& result);

}  // namespace zeroth::tools
