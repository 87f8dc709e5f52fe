// SPDX-License-Identifier: Apache-2.0
#include "config_diff.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace zeroth::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string value_of(Json const& entry) {
  auto const& value = entry.at("value");
  return value.is_null() ? "?" : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A value, with its origin unless that is the file.
std::string shown(std::string const& value, std::string const& origin) {
  auto const short_origin = origin.substr(0, origin.find(':'));  // without the reason, which is the same in both files
  return origin == "file"                      ? value
         : value == "?" && origin == "default" ? std::string{"unset"}
                                               : fmt::format("{} ({})", value, short_origin);
}

}  // namespace

std::vector<KeyDifference> compare(Config const& config, Config const& other) {
  auto const values = Json::parse(config.to_json()), others = Json::parse(other.to_json());
  std::vector<KeyDifference> differences;
  for (auto const& [path, entry] : values.items()) {
    auto const& beside = others.at(path);  // every config has every key
    if (entry.at("value") != beside.at("value")) {
      differences.push_back({path, value_of(entry), value_of(beside), entry.at("origin"), beside.at("origin")});
    }
  }
  return differences;
}

std::string as_text(std::vector<KeyDifference> const& differences, Config const& config, Config const& other) {
  if (differences.empty()) {
    return fmt::format("{} and {} have the same values\n", config.source(), other.source());
  }
  auto text = fmt::format("{} value{} in {} and {}:\n", differences.size(),
                          differences.size() == 1 ? " differs" : "s differ", config.source(), other.source());
  for (auto const& [path, value, other_value, origin, other_origin] : differences) {
    text += fmt::format("  {}: {}, {}\n", path, shown(value, origin), shown(other_value, other_origin));
  }
  return text;
}

std::string as_json(std::vector<KeyDifference> const& differences, Config const& config, Config const& other) {
  Json json{{"files", {config.source(), other.source()}}, {"differences", Json::array()}};
  for (auto const& each : differences) {
    json["differences"].push_back(
        {{"path", each.path}, {"values", {each.value, each.other}}, {"origins", {each.origin, each.other_origin}}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zeroth::tools
