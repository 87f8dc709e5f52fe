/// A step of a model on a machine, at each stage.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <zeroth/config/config.hpp>
#include <zeroth/simulate/simulate.hpp>

#include "model_source.hpp"

namespace zeroth::tools {

struct SimulationRequest {
  Config config;
  int world = 1;
  simulate::Machine machine;
  std::int64_t context = 0;  ///< Tokens of a sequence.
  bool recompute = false;    ///< Forward of every unit again in backward.
  simulate::Options options;
};

struct SimulatedStage {
  int stage = 0;
  std::optional<simulate::Simulation> result;
  double tokens_per_s = 0;  ///< Of all ranks.
  std::string refused;      ///< Without result: why the file cannot be used at this stage.
};

struct Simulations {
  std::string model_about;  ///< A line.
  std::int64_t tokens_per_step = 0;
  int stage_asked_for = 0;
  std::vector<SimulatedStage> stages;  ///< 0 to 3; timelines only of the one asked for.
};

/// Throws ConfigError if the file does not suit the world at its own stage.
[[nodiscard]] Simulations simulate_stages(SourcedModel const& model, SimulationRequest const& request);

[[nodiscard]] std::string as_text(Simulations const& simulations, SimulationRequest const& request);
[[nodiscard]] std::string as_json(Simulations const& simulations, SimulationRequest const& request);

}  // namespace zeroth::tools
