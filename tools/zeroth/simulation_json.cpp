// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "simulation.hpp"

namespace zeroth::tools {
namespace {

using Json = nlohmann::ordered_json;

Json stage_as_json(SimulatedStage const& stage, std::int64_t device_bytes, bool offloads, bool divides) {
  Json json{{"stage", stage.stage}};
  if (stage.schedule) {
    json["schedule"] = name_of(*stage.schedule);
  }
  if (stage.nearness) {
    json["nearness"] = Json::array();
    for (auto const axis : *stage.nearness) {
      json["nearness"].push_back(name_of(axis));
    }
  }
  if (!stage.result) {
    json["refused"] = stage.refused;
    return json;
  }
  auto const& result = *stage.result;
  json["step_ms"] = result.step_ms;
  json["exposed_comm_ms"] = result.exposed_comm_ms;
  if (divides) {
    json["tensor_ms"] = result.tensor_ms;
  }
  if (!result.pipeline.empty()) {
    json["bubble_ms"] = result.bubble_ms;
    json["pipeline"] = Json::array();
    for (auto const& each : result.pipeline) {
      json["pipeline"].push_back({{"bubble_ms", each.bubble_ms},
                                  {"exposed_comm_ms", each.exposed_comm_ms},
                                  {"bytes_sent_per_step", each.bytes_sent},
                                  {"total", each.memory.total()}});
    }
  }
  if (auto const& server = result.server; server.memory.total() > 0) {
    json["server"] = {{"bytes_sent_per_step", server.bytes_sent}, {"total", server.memory.total()}};
  }
  if (offloads) {
    json["exposed_io_ms"] = result.exposed_io_ms;
  }
  json["mfu"] = result.mfu;
  json["tokens_per_s"] = stage.tokens_per_s;
  json["bytes_sent_per_step"] = result.bytes_sent;
  json["total"] = result.memory.total();
  if (device_bytes > 0) {
    json["fits"] = result.memory.total() <= device_bytes;
    json["left"] = device_bytes - result.memory.total();
  }
  json["parameter_slots"] = stage.parameter_slots;
  json["parameter_slots_used"] = result.report.parameter_slots_used;
  json["gradient_slots"] = stage.gradient_slots;
  json["gradient_slots_used"] = result.report.gradient_slots_used;
  json["prefetch_misses"] = result.report.prefetch_misses;
  return json;
}

}  // namespace

std::string as_json(Simulations const& simulations, SimulationRequest const& request) {
  Json json;
  json["ranks"] = request.world;
  json["model"] = {{"name", simulations.model.name},
                   {"parameters", simulations.plan.parameter_count},
                   {"units", simulations.plan.units}};
  json["config"] = request.config_file.empty() ? Json(nullptr) : Json(request.config_file);
  json["stage"] = simulations.plan.settings.stage;
  auto const& rates = request.machine.rates;
  json["machine"] = request.machine.name;
  json["code"] = {
      {"name", request.code.empty() ? Json(nullptr) : Json(request.code)},
      {"math_efficiency", rates.math_efficiency},
      {"attention_efficiency", rates.attention_efficiency > 0 ? rates.attention_efficiency : rates.math_efficiency},
      {"activation_passes", rates.activation_passes},
      {"parameter_passes", rates.parameter_passes}};
  if (request.machine.device_memory_bytes > 0) {
    json["device_memory"] = request.machine.device_memory_bytes;
  }
  json["context"] = request.context;
  json["tokens_per_step"] = simulations.tokens_per_step;
  json["recompute"] = request.recompute;
  if (auto const& planned = simulations.plan.activations; planned.recomputed > 0) {
    json["activations"] = {{"recomputed", planned.recomputed},
                           {"offloaded", planned.offloaded},
                           {"written_per_step", planned.written_bytes},
                           {"read_per_step", planned.read_bytes}};
  }
  json["slow"] = Json::array();
  for (auto const& [rank, factor] : request.options.slowdown) {
    json["slow"].push_back({{"rank", rank}, {"factor", factor}});
  }
  for (auto const& stage : simulations.stages) {
    json["stages"].push_back(stage_as_json(stage, request.machine.device_memory_bytes, !simulations.tier().empty(),
                                           request.config.tensor_ranks() > 1));
  }
  return json.dump(2) + "\n";
}

}  // namespace zeroth::tools
