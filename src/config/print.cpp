// SPDX-License-Identifier: Apache-2.0
#include "config/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {
namespace {

std::string origin(Key const& key, Entry const& entry) {
  bool const automatic = entry.source == Source::automatic;
  if (entry.source == Source::value) {
    return entry.line > 0 ? "file" : "set";
  }
  if (entry.source == Source::given) {
    return "given";
  }
  if (entry.source == Source::program) {
    return "the program's own";
  }
  if (automatic && key.automatic) {
    return "derived: \"auto\", the elements of the largest unit";
  }
  std::string_view const said = automatic ? " (the file says \"auto\")" : "";
  if (automatic && key.when_auto != nullptr) {
    return entry.value ? "derived: \"auto\", from other values" : "open: the file leaves it to the program";
  }
  if (key.derive == nullptr) {
    return fmt::format("default{}", said);
  }
  return fmt::format("derived: {}{}{}", key.why, entry.value ? "" : ", given the world size", said);
}

nlohmann::ordered_json as_json(std::optional<Value> const& value) {
  return value ? std::visit(
                     [](auto const& held) -> nlohmann::ordered_json {
                       if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
                         return nullptr;
                       } else if constexpr (std::is_same_v<std::decay_t<decltype(held)>, Integers>) {
                         return held.copy();
                       } else if constexpr (std::is_same_v<std::decay_t<decltype(held)>, UnitChoice>) {
                         return held.names == nullptr ? nlohmann::ordered_json(held.word)
                                                      : nlohmann::ordered_json(held.copy());
                       } else {
                         return held;
                       }
                     },
                     *value)
               : nlohmann::ordered_json{};
}

template <class F>
void for_each_entry(Values const& values, F const& f) {
  for (std::size_t i = 0; i < key_count; ++i) {
    if (applies(keys[i], values)) {
      f(keys[i], values.entries[i]);
    }
  }
}

}  // namespace

std::string to_text(Value const& value) { return as_json(value).dump(); }

std::string to_table(Values const& values) {
  std::size_t path_width = 0;
  std::size_t value_width = 0;
  auto const text = [](Entry const& entry) { return entry.value ? to_text(*entry.value) : std::string{"?"}; };
  for_each_entry(values, [&](Key const& key, Entry const& entry) {
    path_width = std::max(path_width, key.path.size());
    value_width = std::max(value_width, text(entry).size());
  });
  std::string table;
  for_each_entry(values, [&](Key const& key, Entry const& entry) {
    table += fmt::format("{:<{}} = {:<{}}  ({})\n", key.path, path_width, text(entry), value_width, origin(key, entry));
  });
  return table;
}

std::string to_json(Values const& values) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for_each_entry(values, [&](Key const& key, Entry const& entry) {
    object[std::string{key.path}] = {{"value", as_json(entry.value)}, {"origin", origin(key, entry)}};
  });
  return object.dump();
}

}  // namespace zeroth::config
