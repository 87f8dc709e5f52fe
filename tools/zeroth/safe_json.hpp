// SPDX-License-Identifier: Apache-2.0
/// JSON with names from untrusted files.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace zeroth::tools {

/// ASCII only, whatever the strings contain, so that it cannot control a terminal.
[[nodiscard]] inline std::string safe_text(nlohmann::ordered_json const& json) {
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace zeroth::tools
