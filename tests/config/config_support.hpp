// SPDX-License-Identifier: Apache-2.0
/// Helpers for the tests of stage files.
#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "zeroth/config/config.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {

/// {"train_batch_size": 8, MEMBERS}, where 8 suits worlds 1, 2, 4 and 8.
inline std::string file_with(std::string const& members) {
  return fmt::format(R"({{"train_batch_size": 8{}{}}})", members.empty() ? "" : ", ", members);
}
inline Settings settings_of(std::string const& members, int world = 1, std::int64_t largest_unit_count = 1000) {
  return Config::from_json(file_with(members)).settings(world, largest_unit_count);
}
inline nlohmann::json printed(Config const& config) { return nlohmann::json::parse(config.to_json()); }

/// The text of the ConfigError below its first line, "<text>: 2 problems"; empty if nothing is thrown.
inline std::string problems_of(std::string const& text, std::optional<int> world = {}) {
  try {
    auto const config = Config::from_json(text);
    if (world) {
      (void)config.settings(*world, 1000);
    }
  } catch (ConfigError const& error) {
    std::string const message = error.what();
    return message.substr(message.find('\n') + 1);
  }
  return {};
}

inline std::filesystem::path source_folder() { return ZEROTH_SOURCE_DIR; }

}  // namespace zeroth::testing
