// SPDX-License-Identifier: Apache-2.0
/// From JSON to values: every key is looked up, every value is checked.
#pragma once
#include "config/values.hpp"
#include "zeroth/config/document.hpp"
#include "zeroth/config/problem.hpp"

namespace zeroth::config {

/// The values that `document` gives, the others as in an empty file. Adds a problem for each member that is not a key
/// of Zeroth's with an allowed value. The document must outlive the values.
[[nodiscard]] Values read_values(Object const& document, Problems& problems);

}  // namespace zeroth::config
