// SPDX-License-Identifier: Apache-2.0
/// Settings given on a command line: "zero_optimization.stage=2".
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth::config {

/// Merges assignments KEY=VALUE into one JSON object for ConfigInputs::changes. A KEY is a dotted path. A VALUE is
/// JSON, or else taken as a string. The last assignment to a KEY counts. Throws ConfigError if the KEY or the "=" is
/// missing, or if a KEY continues below another one's value. `option` is the option's name in messages.
[[nodiscard]] ZEROTH_EXPORT std::string changes_from(std::span<std::string const> assignments,
                                                     std::string_view option = "--set");

}  // namespace zeroth::config
