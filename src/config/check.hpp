// SPDX-License-Identifier: Apache-2.0
/// Checks one value of the file against its key.
#pragma once
#include <string>

#include "config/keys.hpp"
#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

/// A value of the right kind and in range, or a message.
struct Checked {
  Value value;
  std::string wrong;
};

/// Names are stored in the table's spelling; texts are views of `node`.
[[nodiscard]] Checked check(Key const& key, Node const& node);

[[nodiscard]] bool is_auto(Node const& node);
[[nodiscard]] bool is_null(Node const& node);

}  // namespace zeroth::config
