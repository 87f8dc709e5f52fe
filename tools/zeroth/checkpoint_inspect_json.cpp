// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include <zeroth/checkpoint/contents.hpp>
#include <zeroth/tool/config/document.hpp>

#include "checkpoint_inspect.hpp"
#include "safe_json.hpp"

namespace zeroth::tools {
namespace {

using Json = nlohmann::ordered_json;

Json data_order_as_json(std::optional<SampleOrder> const& order) {
  return order ? Json{{"samples", order->size()}, {"shuffled", order->shuffled()}, {"seed", order->seed()}}
               : Json(nullptr);
}

Json loss_scale_as_json(std::optional<optim::LossScaleState> const& state) {
  return state ? Json{{"scale", static_cast<double>(state->scale)},
                      {"overflows_to_halve", state->hysteresis_left},
                      {"exhausted", state->exhausted}}
               : Json(nullptr);
}

Json states_as_json(std::vector<StateFacts> const& all) {
  auto json = Json::array();
  for (auto const& [name, dtype, count] : all) {
    json.push_back({{"name", name}, {"dtype", name_of(dtype)}, {"elements", count}});
  }
  return json;
}

Json count_as_json(ParamCount const& count) { return {{"tensors", count.params}, {"elements", count.elements}}; }

/// The division among tensor ranks.
Json cut_as_json(std::optional<checkpoint::SavedCut> const& saved) {
  return saved ? Json{{"dim", saved->cut.dim},
                      {"sections", saved->cut.sections},
                      {"multiple", saved->cut.multiple},
                      {"of", saved->part.of}}
               : Json(nullptr);
}

Json parameters_as_json(checkpoint::Contents const& contents) {
  auto json = Json::array();
  for (auto const& space : contents.spaces) {
    for (auto const& param : space.params) {
      if (param.comes_first()) {
        json.push_back({{"name", param.name},
                        {"unit", space.unit},
                        {"shape", param.shape},
                        {"elements", param.whole_count()},
                        {"trainable", space.trainable},
                        {"ties", param.ties},
                        {"cut", cut_as_json(param.cut)}});
      }
    }
  }
  return json;
}

/// Returns an object for a resolved stage file, otherwise a text.
Json stage_file_as_json(std::string const& text) {
  config::Problems problems;
  static_cast<void>(config::read_document(text, problems, config::Comments::refused));  // checks the depth
  auto json = Json::parse(text, nullptr, false);
  return problems.empty() && !json.is_discarded() ? json : Json(text);
}

Json files_as_json(CheckpointFacts const& facts) {
  auto wrong = Json::array();
  for (auto const& [name, why] : facts.wrong) {
    wrong.push_back({{"name", name}, {"why", why}});
  }
  return {{"places", facts.record.contents.places},
          {"stages", facts.record.contents.stages()},
          {"tensor_ranks", facts.record.contents.tensor_ranks},
          {"bytes", facts.bytes},
          {"record_bytes", facts.record_bytes},
          {"looked_at", facts.looked_at},
          {"damaged", std::move(wrong)}};
}

}  // namespace

std::string as_json(CheckpointFacts const& facts, InspectOptions const& options) {
  auto const& record = facts.record;
  auto const& position = record.position;
  Json json{{"path", facts.path.string()},
            {"step", position.step},
            {"updates", position.applied},
            {"samples", position.samples},
            {"data_order", data_order_as_json(record.order)},
            {"loss_scale", loss_scale_as_json(position.loss_scale)},
            {"created", record.origin.created},
            {"version", record.origin.version},
            {"host", record.origin.host},
            {"process", record.origin.process},
            {"save_id", record.save_id},
            {"optimizer", record.optimizer},
            {"states", states_as_json(facts.states)},
            {"compute", facts.compute.empty() ? Json(nullptr) : Json(facts.compute)},
            {"model_seed", record.model_seed},
            {"rounding_seed", record.rounding_seed},
            {"program_state_bytes", record.program_state.size()},
            {"rank_state_bytes", record.contents.rank_states},
            {"files", files_as_json(facts)},
            {"model",
             {{"all", count_as_json(facts.all)},
              {"frozen", count_as_json(facts.frozen)},
              {"tied", count_as_json(facts.tied)}}},
            {"parameters", parameters_as_json(record.contents)}};
  if (options.stage_file) {
    json["stage_file"] = stage_file_as_json(record.stage_file);
  }
  return safe_text(json);
}

}  // namespace zeroth::tools
