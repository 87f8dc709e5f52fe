// SPDX-License-Identifier: Apache-2.0
/// Environment variables that a test makes up.
#pragma once
#include <map>
#include <string>

#include "comm/launch/environment.hpp"

namespace zeroth::comm {

using Environment = std::map<std::string, std::string>;

/// Reads `environment`, which must outlive the result.
[[nodiscard]] inline Variables from(Environment const& environment) {
  return [&environment](char const* name) {
    auto const found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

/// The union; `b` takes precedence.
[[nodiscard]] inline Environment operator+(Environment const& a, Environment b) {
  b.insert(a.begin(), a.end());
  return b;
}

}  // namespace zeroth::comm
