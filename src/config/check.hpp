// SPDX-License-Identifier: Apache-2.0
/// Whether one value of the file is one that its key allows.
#pragma once
#include <string>

#include "config/keys.hpp"
#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

/// A value of the right kind and in range, or what is wrong with it.
struct Checked {
  Value value;
  std::string wrong;
};

/// Names are stored as the table spells them; texts are views of `node`.
[[nodiscard]] Checked check(Key const& key, Node const& node);

[[nodiscard]] bool is_auto(Node const& node);
[[nodiscard]] bool is_null(Node const& node);

}  // namespace zeroth::config
