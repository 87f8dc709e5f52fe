#include <nlohmann/json.hpp>

#include "simulation.hpp"

namespace zeroth::tools {
namespace {

using Json = nlohmann::ordered_json;

Json stage_as_json(SimulatedStage const& stage) {
  Json json{{"stage", stage.stage}};
  if (!stage.result) {
    json["refused"] = stage.refused;
    return json;
  }
  auto const& result = *stage.result;
  json["step_ms"] = result.step_ms;
  json["exposed_comm_ms"] = result.exposed_comm_ms;
  json["mfu"] = result.mfu;
  json["tokens_per_s"] = stage.tokens_per_s;
  json["bytes_sent_per_step"] = result.bytes_sent;
  json["memory"] = result.memory.total();
  json["parameter_slots_used"] = result.report.parameter_slots_used;
  json["gradient_slots_used"] = result.report.gradient_slots_used;
  json["prefetch_misses"] = result.report.prefetch_misses;
  return json;
}

}  // namespace

std::string as_json(Simulations const& simulations, SimulationRequest const& request) {
  Json json{{"ranks", request.world},
            {"machine", request.machine.name},
            {"model", simulations.model_about},
            {"context", request.context},
            {"recompute", request.recompute},
            {"tokens_per_step", simulations.tokens_per_step},
            {"stage", simulations.stage_asked_for}};
  for (auto const& stage : simulations.stages) {
    json["stages"].push_back(stage_as_json(stage));
  }
  return json.dump(2) + "\n";
}

}  // namespace zeroth::tools
