// SPDX-License-Identifier: Apache-2.0
/// Simulates a step of a model on a machine, at each stage.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zeroth/config/config.hpp>
#include <zeroth/engine/plan.hpp>
#include <zeroth/simulate/simulate.hpp>

#include "model_source.hpp"
#include "paper.hpp"

namespace zeroth::tools {

struct SimulationRequest {
  std::string config_file;  ///< Empty: no file.
  Config config;
  int world = 1;
  simulate::Machine machine;
  std::string code;          ///< The requested kind of code; empty: the machine's own rates.
  std::int64_t context = 0;  ///< Sequence length in tokens.
  bool recompute = false;    ///< Backward recomputes forward of every unit, except its last product.
  bool schedules = false;    ///< Compares pipeline schedules instead of ZeRO stages.
  bool permute = false;      ///< Compares orders of the mesh's axes instead of ZeRO stages.
  simulate::Options options;
};

/// A simulation at another stage, schedule or order of the mesh's axes, with all other settings from the file.
struct SimulatedStage {
  int stage = 0;
  std::optional<PipelineSchedule> schedule = {};    ///< Replaces the file's.
  std::optional<simulate::Nearness> nearness = {};  ///< Replaces the order of Mesh.
  bool asked_for = false;                           ///< Whether it is the file's own stage, schedule or order.
  std::optional<simulate::Simulation> result = {};  ///< At the requested stage with timelines.
  double tokens_per_s = 0;                          ///< Over all ranks.
  int parameter_slots = 0, gradient_slots = 0;      ///< From the plan.
  std::string refused = {};                         ///< If there is no result, the reason why the file cannot be used
                                                    ///< at this stage.
};

/// The result of `zeroth simulate`.
struct Simulations {
  SourcedModel model;
  Plan plan;  ///< At the file's own stage.
  std::int64_t tokens_per_step = 0;
  std::vector<SimulatedStage> stages;  ///< 0 to 3, or one for each schedule, or for each order of axes, fastest first.
  [[nodiscard]] simulate::Simulation const& asked_for() const {
    return std::ranges::find(stages, true, &SimulatedStage::asked_for)->result.value();
  }
  /// "disk" or "host": the tier that states are read from for their update; empty if none is offloaded.
  [[nodiscard]] std::string_view tier() const noexcept {
    return plan.bytes_on_disk() > 0 ? "disk" : plan.host.bytes > 0 ? "host" : "";
  }
};

/// "stage 2", "1f1b", or "tensor, data, pipeline".
[[nodiscard]] std::string name_of(SimulatedStage const& stage);

/// Throws ConfigError if the file does not fit the world at its own stage, if schedules are requested without a
/// pipeline, or if orders are requested of a mesh in which only one axis has several ranks. At other stages it stores
/// the error.
[[nodiscard]] Simulations simulate_stages(SourcedModel const& model, SimulationRequest const& request);

[[nodiscard]] std::string as_text(Simulations const& simulations, SimulationRequest const& request,
                                  Paper const& paper = {});
[[nodiscard]] std::string as_json(Simulations const& simulations, SimulationRequest const& request);

}  // namespace zeroth::tools
