// SPDX-License-Identifier: Apache-2.0
/// The resolved file, for people and for programs.
#pragma once
#include <string>

#include "config/values.hpp"

namespace zeroth::config {

/// One line per key: path = value   (file | derived: why | default). Keys without effect are left out.
[[nodiscard]] std::string to_table(Values const& values);
/// {path: {"value": ..., "origin": ...}}, on one line.
[[nodiscard]] std::string to_json(Values const& values);

}  // namespace zeroth::config
