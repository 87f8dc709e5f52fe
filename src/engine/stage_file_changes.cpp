// SPDX-License-Identifier: Apache-2.0
#include "engine/stage_file_changes.hpp"

#include <fmt/format.h>

#include <map>

#include "zeroth/config/document.hpp"

namespace zeroth::engine {
namespace {

/// Values as they are shown, by path.
std::map<std::string, std::string> values_of(std::string_view text) {
  config::Problems problems;
  std::map<std::string, std::string> values;
  for (auto const& member : config::read_document(text, problems)) {
    auto const* const entry = std::get_if<config::Object>(&member.node.value);
    auto const* const value = entry == nullptr ? nullptr : config::find(*entry, "value");
    if (value != nullptr) {
      values[member.name] = config::show(value->node);
    }
  }
  return values;
}

}  // namespace

std::vector<std::string> stage_file_changes(std::string_view before, std::string_view now) {
  auto const old_values = values_of(before);
  std::vector<std::string> changes;
  for (auto const& [path, value] : values_of(now)) {
    if (auto const old_value = old_values.find(path); old_value != old_values.end() && old_value->second != value) {
      changes.push_back(fmt::format("{}: {}, was {}", path, value, old_value->second));
    }
  }
  return changes;
}

}  // namespace zeroth::engine
