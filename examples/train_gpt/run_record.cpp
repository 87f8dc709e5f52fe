// SPDX-License-Identifier: Apache-2.0
#include "run_record.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include <zeroth/tool/config/document.hpp>

namespace gpt {

namespace {

using Json = nlohmann::ordered_json;

std::string to_line(Json const& record) { return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

/// Adds the values of `object`, as displayed, by path.
void add_values(zeroth::config::Object const& object, std::string const& path,
                std::map<std::string, std::string>& values) {
  for (auto const& member : object) {
    auto const name = path.empty() ? member.name : path + "." + member.name;
    if (auto const* const inner = std::get_if<zeroth::config::Object>(&member.node.value)) {
      add_values(*inner, name, values);
    } else {
      values[name] = show(member.node);
    }
  }
}

/// The choices in a run's record. Empty for any other text.
std::map<std::string, std::string> choices_in(std::string_view record) {
  zeroth::config::Problems problems;
  auto object = zeroth::config::read_document(record, problems, zeroth::config::Comments::refused);
  std::erase_if(object, [](auto const& member) { return member.name == "resumed"; });
  std::map<std::string, std::string> values;
  add_values(object, "", values);
  if (auto const kind = values.find("record"); kind == values.end() || kind->second != "\"run\"") {
    return {};
  }
  // For keys of the stage file only the value counts, not its origin.
  std::erase_if(values,
                [](auto const& each) { return each.first.starts_with("config.") && !each.first.ends_with(".value"); });
  return values;
}

}  // namespace

std::string run_record(Options const& options, zeroth::Config const& config, Shape const& shape, Batches const& batches,
                       MathChoice const& math, int world) {
  auto const data_ranks = world / config.pipeline().stages / config.tensor_ranks();
  auto const batch = config.settings(data_ranks, 1).batch;  // it does not depend on the largest unit
  Json const record{{"record", "run"},
                    {"world", world},
                    {"device", options.device == zeroth::DeviceKind::cuda ? "cuda" : "cpu"},
                    {"share_devices", options.share_devices},
                    {"tf32", options.tf32},
                    {"math", math.name},
                    {"steps", options.steps},
                    {"batch", {{"train", batch.train}, {"micro", batch.micro}, {"accumulation", batch.accumulation}}},
                    {"seed", options.seed},
                    {"order", options.order == Order::sequential ? "sequential" : "shuffled"},
                    {"recompute", config.activation_checkpointing().units != zeroth::RecomputedUnits::none},
                    {"dropout", options.dropout},
                    {"data", {{"path", options.data.string()}, {"sequences", batches.sequences()}}},
                    {"init", options.init.empty() ? Json{} : Json(options.init.string())},
                    {"model",
                     {{"layers", shape.layers},
                      {"heads", shape.heads},
                      {"channels", shape.channels},
                      {"context", shape.context},
                      {"vocabulary", shape.vocabulary},
                      {"untied_head", shape.untied_head}}},
                    {"config", Json::parse(config.to_json())},
                    {"resumed", nullptr}};
  return to_line(record);
}

std::vector<std::string> changes_since(zeroth::Restored const& restored, std::string_view now) {
  auto const before = choices_in({reinterpret_cast<char const*>(restored.program_state.data()),  //
                                  restored.program_state.size()});
  std::vector<std::string> changes;
  for (auto const& [path, value] : choices_in(now)) {
    if (auto const old = before.find(path); old != before.end() && old->second != value) {
      auto const name = path.ends_with(".value") ? path.substr(0, path.size() - 6) : path;
      changes.push_back(fmt::format("{}: {}, was {}", name, value, old->second));
    }
  }
  return changes;
}

std::string resumed_record(std::string const& now, zeroth::Restored const& restored,
                           std::vector<std::string> const& changes) {
  auto record = Json::parse(now);
  record["resumed"] = {{"checkpoint", restored.path.string()},
                       {"step", restored.step},
                       {"samples", restored.samples},
                       {"changes", changes}};
  return to_line(record);
}

}  // namespace gpt
