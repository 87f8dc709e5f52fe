// SPDX-License-Identifier: Apache-2.0
/// What is set on a command line: "zero_optimization.stage=2".
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth::config {

/// One JSON object of assignments KEY=VALUE, for ConfigInputs::changes: a KEY is a path with dots, a VALUE is JSON, or
/// else the text that it is. Of several to one KEY the last counts. Throws ConfigError for one without a KEY or a "=",
/// or whose KEY goes on below another one's value; `option` is what messages call them.
[[nodiscard]] ZEROTH_EXPORT std::string changes_from(std::span<std::string const> assignments,
                                                     std::string_view option = "--set");

}  // namespace zeroth::config
