// SPDX-License-Identifier: Apache-2.0
/// How two resolved stage files differ.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::config {

/// Of two Config::to_json(), a line for each value of `now` that was another one: "zero_optimization.stage: 3, was 1".
/// None if one is nothing of the kind. Safe for a terminal, wherever they are from.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::string> changes(std::string_view before, std::string_view now);

}  // namespace zeroth::config
