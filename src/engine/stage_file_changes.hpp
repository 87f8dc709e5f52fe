// SPDX-License-Identifier: Apache-2.0
/// How two resolved stage files differ.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::engine {

/// Of two Config::to_json(): "zero_optimization.stage: 3, was 1". None if one is nothing of the kind.
[[nodiscard]] std::vector<std::string> stage_file_changes(std::string_view before, std::string_view now);

}  // namespace zeroth::engine
