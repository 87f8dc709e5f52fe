// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/config/changes.hpp"

#include <fmt/format.h>

#include <map>

#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::config {
namespace {

/// Printed values by path.
std::map<std::string, std::string> values_of(std::string_view text) {
  Problems problems;
  std::map<std::string, std::string> values;
  for (auto const& member : read_document(text, problems)) {
    auto const* const entry = std::get_if<Object>(&member.node.value);
    auto const* const value = entry == nullptr ? nullptr : find(*entry, "value");
    if (value != nullptr) {
      values[member.name] = show(value->node);
    }
  }
  return values;
}

}  // namespace

std::vector<std::string> changes(std::string_view before, std::string_view now) {
  auto const old_values = values_of(before);
  std::vector<std::string> all;
  for (auto const& [path, value] : values_of(now)) {
    if (auto const old_value = old_values.find(path); old_value != old_values.end() && old_value->second != value) {
      all.push_back(fmt::format("{}: {}, was {}", escaped(path), value, old_value->second));
    }
  }
  return all;
}

}  // namespace zeroth::config
