// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/config/assignments.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {
namespace {

using Json = nlohmann::ordered_json;

/// The node at `path` in `object`. Creates the objects on the way. Null if one of them is another kind of value.
Json* place_of(Json& object, std::string_view path) {
  auto* at = &object;
  while (true) {
    auto const dot = path.find('.');
    auto const name = path.substr(0, dot);
    if (name.empty() || !at->is_object()) {
      return nullptr;
    }
    at = &(*at)[std::string{name}];
    if (dot == std::string_view::npos) {
      return at;
    }
    if (at->is_null()) {
      *at = Json::object();
    }
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string changes_from(std::span<std::string const> assignments, std::string_view option) {
  auto object = Json::object();
  for (auto const& assignment : assignments) {
    auto const equals = assignment.find('=');
    auto* const place =
        equals == std::string::npos ? nullptr : place_of(object, std::string_view{assignment}.substr(0, equals));
    if (place == nullptr) {
      throw ConfigError{fmt::format("{} {}: allowed: KEY=VALUE, where KEY is a path like zero_optimization.stage",
                                    option, in_quotes(assignment))};
    }
    auto const text = assignment.substr(equals + 1);
    auto value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    *place = value.is_discarded() ? Json(text) : std::move(value);
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace zeroth::config
