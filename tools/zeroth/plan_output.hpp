// SPDX-License-Identifier: Apache-2.0
/// A plan as text and as JSON.
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

/// The result of `zeroth plan`.
struct PlanResult {
  SourcedModel model;
  PlanInput input;
  std::string config_file;                   ///< Empty: no file.
  Plan asked_for;                            ///< With the file's own stage.
  std::vector<StagePlan> stages;             ///< 0 to 3.
  std::optional<std::int64_t> device_bytes;  ///< Device memory to fit into.
  std::optional<Advice> advice;              ///< Set if the requested stage does not fit.
};

/// The file's stage; 3 without a file.
[[nodiscard]] inline int stage_asked_for(PlanResult const& result) { return result.asked_for.settings.stage; }

[[nodiscard]] std::string as_text(PlanResult const& result, Paper const& paper = {});
[[nodiscard]] std::string as_json(PlanResult const& result);

}  // namespace zeroth::tools
