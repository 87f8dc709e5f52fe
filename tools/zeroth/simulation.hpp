// SPDX-License-Identifier: Apache-2.0
/// A step of a model on a machine, at each stage.
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
  std::string config_file;  ///< Empty: there was none.
  Config config;
  int world = 1;
  simulate::Machine machine;
  std::string code;          ///< The kind of code that was asked for; empty: the machine's own rates.
  std::int64_t context = 0;  ///< Tokens of a sequence.
  bool recompute = false;    ///< Forward of every unit again in backward, but its last product.
  bool schedules = false;    ///< Of pipelines, in place of stages of ZeRO.
  bool permute = false;      ///< The mesh, with its axes in all orders, in place of stages of ZeRO.
  simulate::Options options;
};

/// A stage in place of the file's, or a schedule, or another order of the mesh's axes; all else as the file says.
struct SimulatedStage {
  int stage = 0;
  std::optional<PipelineSchedule> schedule = {};    ///< In place of the file's.
  std::optional<simulate::Nearness> nearness = {};  ///< In place of Mesh's own.
  bool asked_for = false;                           ///< Is it the file's own?
  std::optional<simulate::Simulation> result = {};  ///< With timelines at the stage asked for.
  double tokens_per_s = 0;                          ///< Of all ranks.
  int parameter_slots = 0, gradient_slots = 0;      ///< That the plan has.
  std::string refused = {};                         ///< Without result: why the file cannot be used at this stage.
};

/// All that `zeroth simulate` found.
struct Simulations {
  SourcedModel model;
  Plan plan;  ///< The file's, at its own stage.
  std::int64_t tokens_per_step = 0;
  std::vector<SimulatedStage> stages;  ///< 0 to 3, or one for each schedule, or for each order of axes, fastest first.
  [[nodiscard]] simulate::Simulation const& asked_for() const {
    return std::ranges::find(stages, true, &SimulatedStage::asked_for)->result.value();
  }
  /// "disk" or "host": where states are that come to the device for their update; empty: all are there.
  [[nodiscard]] std::string_view tier() const noexcept {
    return plan.bytes_on_disk() > 0 ? "disk" : plan.host.bytes > 0 ? "host" : "";
  }
};

/// "stage 2", "1f1b", or "tensor, data, pipeline".
[[nodiscard]] std::string name_of(SimulatedStage const& stage);

/// Throws ConfigError if the file does not suit the world at its own stage; at another one that is written down. Also
/// for schedules where there is no pipeline, and for orders of axes where only one has several ranks.
[[nodiscard]] Simulations simulate_stages(SourcedModel const& model, SimulationRequest const& request);

[[nodiscard]] std::string as_text(Simulations const& simulations, SimulationRequest const& request,
                                  Paper const& paper = {});
[[nodiscard]] std::string as_json(Simulations const& simulations, SimulationRequest const& request);

}  // namespace zeroth::tools
