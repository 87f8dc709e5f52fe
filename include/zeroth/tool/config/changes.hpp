// SPDX-License-Identifier: Apache-2.0
/// Differences of two resolved stage files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::config {

/// Compares two results of Config::to_json(). Returns a line for each value of `now` that differs from `before`:
/// "zero_optimization.stage: 3, was 1". Empty if either text is not such a result. Safe to print on a terminal,
/// whatever the texts contain.
[[nodiscard]] ZEROTH_EXPORT std::vector<std::string> changes(std::string_view before, std::string_view now);

}  // namespace zeroth::config
