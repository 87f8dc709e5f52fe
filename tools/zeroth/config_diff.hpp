// SPDX-License-Identifier: Apache-2.0
/// `zeroth config --diff`: the values in which two stage files differ, whether they are written or follow from others.
#pragma once
#include <string>
#include <vector>

#include <zeroth/config/config.hpp>

#include "paper.hpp"

namespace zeroth::tools {

/// A key whose values differ, as JSON; "?" for a value that depends on what a file leaves open.
struct KeyDifference {
  std::string path, value, other;
  std::string origin, other_origin;  ///< file, default, or derived and the reason.
};

/// In the order of docs/config.md.
[[nodiscard]] std::vector<KeyDifference> compare(Config const& config, Config const& other);
[[nodiscard]] std::string as_text(std::vector<KeyDifference> const& differences, Config const& config,
                                  Config const& other);
[[nodiscard]] std::string as_json(std::vector<KeyDifference> const& differences, Config const& config,
                                  Config const& other);

}  // namespace zeroth::tools
