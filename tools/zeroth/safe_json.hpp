// SPDX-License-Identifier: Apache-2.0
/// JSON that has names from files of others.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace zeroth::tools {

/// In ASCII alone, whatever strings hold, so that it does nothing to a terminal.
[[nodiscard]] inline std::string safe_text(nlohmann::ordered_json const& json) {
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace zeroth::tools
