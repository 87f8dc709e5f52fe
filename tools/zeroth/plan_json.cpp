// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <tuple>
#include <utility>

#include "plan_output.hpp"

namespace zeroth::tools {
namespace {

using Json = nlohmann::ordered_json;

Json stage_as_json(StagePlan const& stage, std::optional<std::int64_t> device_bytes) {
  Json json{{"stage", stage.stage}};
  if (!stage.plan) {
    json["refused"] = stage.refused;
    return json;
  }
  auto const states = stage.plan->without_padding();
  auto const total = stage.plan->bytes.total();
  json["parameters"] = states.parameters;
  json["gradients"] = states.gradients;
  json["optimizer"] = states.optimizer;
  json["slots"] = states.slots;
  json["scratch"] = states.scratch;
  json["padding"] = stage.plan->padding.total();
  json["total"] = total;
  json["bytes_sent_per_step"] = stage.bytes_sent_per_step;
  for (auto const& [name, tier] : {std::pair{"host", &stage.plan->host}, {"disk", &stage.plan->disk}}) {
    if (tier->bytes > 0) {
      json[name] = {
          {"bytes", tier->bytes}, {"read_per_step", tier->read_bytes},        {"written_per_step", tier->written_bytes},
          {"tiles", tier->tiles}, {"tiles_in_memory", tier->tiles_in_memory}, {"memory", tier->memory_bytes}};
    }
  }
  if (auto const& disk = stage.plan->parameters_disk; disk.bytes > 0) {
    json["parameters_disk"] = {
        {"bytes", disk.bytes},     {"read_per_step", disk.read_bytes},  {"written_per_step", disk.written_bytes},
        {"buffers", disk.buffers}, {"buffer_count", disk.buffer_count}, {"memory", disk.memory_bytes}};
  }
  if (stage.plan->settings.checkpoint.buffer_bytes > 0) {
    json["staging"] = stage.plan->staging_bytes;
  }
  if (device_bytes) {
    json["fits"] = total <= *device_bytes;
    json["left"] = *device_bytes - total;
  }
  return json;
}

/// At the requested ZeRO stage.
Json pipeline_as_json(Plan const& plan) {
  Json json{{"schedule", name_of(plan.settings.pipeline.schedule)},
            {"data_ranks", plan.data_ranks},
            {"largest", plan.largest_stage},
            {"stages", Json::array()}};
  for (auto const& stage : plan.pipeline) {
    auto const& [bytes, padding] = std::tie(stage.bytes, stage.padding);
    json["stages"].push_back({{"first_unit", stage.first_unit},
                              {"units", stage.units},
                              {"elements", stage.parameter_count},
                              {"in_flight", stage.in_flight},
                              {"parameters", bytes.parameters - padding.parameters},
                              {"gradients", bytes.gradients - padding.gradients},
                              {"optimizer", bytes.optimizer - padding.optimizer},
                              {"slots", bytes.slots - stage.message_bytes},
                              {"messages", stage.message_bytes},
                              {"scratch", bytes.scratch},
                              {"padding", padding.total()},
                              {"total", bytes.total()}});
  }
  return json;
}

Json advice_as_json(Advice const& advice, Plan const& asked_for) {
  Json json;
  json["smallest_stage"] = advice.smallest_stage ? Json(*advice.smallest_stage) : Json(nullptr);
  json["ranks_for_stage_3"] = advice.world_for_stage_3 ? Json(*advice.world_for_stage_3) : Json(nullptr);
  json["ranks_for_stage_3_with_keys"] = advice.world_with_savings ? Json(*advice.world_with_savings) : Json(nullptr);
  json["largest_unit"] = {{"name", asked_for.largest_flat_unit}, {"parameters", asked_for.largest_flat_unit_count}};
  json["keys"] = Json::array();
  for (auto const& stage : advice.stages) {
    for (auto const& saving : stage.savings) {
      json["keys"].push_back({{"stage", stage.stage},
                              {"key", saving.key},
                              {"value", Json::parse(saving.value)},
                              {"saves", saving.bytes},
                              {"changes_rounding", saving.numbers_differ}});
    }
  }
  auto const* const tier = asked_for.device == DeviceKind::cuda ? "host" : "disk";
  json[tier] = Json::array();
  for (auto const& stage : advice.stages) {
    if (stage.states) {
      json[tier].push_back({{"stage", stage.stage},
                            {"sub_group_size", stage.states->count},
                            {"total", stage.states->total},
                            {"bytes", stage.states->in_tier}});
    }
    if (stage.parameters) {
      json["parameters_disk"] = {{"stage", stage.stage},
                                 {"buffer_size", stage.parameters->count},
                                 {"total", stage.parameters->total},
                                 {"bytes", stage.parameters->in_tier}};
    }
  }
  return json;
}

}  // namespace

std::string as_json(PlanResult const& result) {
  auto const& asked_for = result.asked_for;
  Json json;
  json["ranks"] = asked_for.world;
  json["model"] = {{"name", result.model.name}, {"parameters", asked_for.parameter_count}, {"units", asked_for.units}};
  json["config"] = result.config_file.empty() ? Json(nullptr) : Json(result.config_file);
  json["stage"] = stage_asked_for(result);
  json["checkpoint"] = asked_for.checkpoint_bytes;
  if (auto const& planned = asked_for.activations; planned.recomputed > 0) {
    json["activations"] = {{"recomputed", planned.recomputed},
                           {"offloaded", planned.offloaded},
                           {"stored", planned.stored_bytes},
                           {"memory", planned.memory_bytes},
                           {"written_per_step", planned.written_bytes},
                           {"read_per_step", planned.read_bytes}};
  }
  json["notes"] = asked_for.notes;
  json["other_ranks"] = asked_for.other_ranks.empty() ? Json(nullptr) : Json(asked_for.other_ranks);
  if (auto const& groups = asked_for.settings.groups; groups.count > 1) {
    json["groups"] = {{"size", groups.size},
                      {"count", groups.count},
                      {"parameter_ranks", asked_for.parameter_ranks},
                      {"gradient_ranks", asked_for.gradient_ranks},
                      {"optimizer_ranks", asked_for.optimizer_ranks}};
    for (auto const& each : asked_for.communicators) {
      json["groups"]["communicators"].push_back({{"name", each.name}, {"ranks", each.ranks}});
    }
  }
  if (auto const& [parameters, count, bytes] = asked_for.persistent; parameters > 0) {
    json["persistent"] = {{"parameters", parameters}, {"elements", count}, {"bytes", bytes}};
  }
  if (asked_for.tensor_ranks > 1) {
    json["tensor"] = {{"ranks", asked_for.tensor_ranks}, {"parameters", asked_for.tensor_rank_count}};
  }
  if (auto const& [count, bytes, padding, pushed, received, sent] = asked_for.servers; count > 0) {
    json["servers"] = {{"count", count},
                       {"parameters", bytes.parameters - padding.parameters},
                       {"gradients", bytes.gradients - padding.gradients},
                       {"optimizer", bytes.optimizer - padding.optimizer},
                       {"scratch", bytes.scratch},
                       {"padding", padding.total()},
                       {"total", bytes.total()},
                       {"received_per_step", received},
                       {"sent_per_step", sent}};
  }
  if (!asked_for.pipeline.empty()) {
    json["pipeline"] = pipeline_as_json(asked_for);
  }
  if (result.device_bytes) {
    json["device_memory"] = *result.device_bytes;
  }
  for (auto const& stage : result.stages) {
    json["stages"].push_back(stage_as_json(stage, result.device_bytes));
  }
  if (result.advice) {
    json["advice"] = advice_as_json(*result.advice, asked_for);
  }
  return json.dump(2) + "\n";
}

}  // namespace zeroth::tools
