// SPDX-License-Identifier: Apache-2.0
/// Converts the tree of a stage file to its values.
#pragma once
#include "config/values.hpp"
#include "zeroth/config/note.hpp"
#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

/// Adds a problem for everything that is unknown, not allowed or not supported, and a note for everything without
/// effect.
[[nodiscard]] Values read_values(Object const& document, Problems& problems, Notes& notes);

}  // namespace zeroth::config
