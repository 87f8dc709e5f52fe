// SPDX-License-Identifier: Apache-2.0
/// What values may not say together.
#pragma once
#include "config/values.hpp"
#include "zeroth/config/problem.hpp"

namespace zeroth::config {

/// Adds a problem for each contradiction. A rule that needs a value that is not known says nothing.
void check_rules(Values const& values, Problems& problems);

}  // namespace zeroth::config
