// SPDX-License-Identifier: Apache-2.0
/// Rules about combinations of values.
#pragma once
#include "config/values.hpp"
#include "zeroth/config/note.hpp"
#include "zeroth/tool/config/problem.hpp"

namespace zeroth::config {

/// Adds a problem for each contradiction. A rule that needs an unknown value is skipped.
void check_rules(Values const& values, Problems& problems);

/// Adds a note for each value that is allowed, but may not be what was meant.
void note_assumptions(Values const& values, Notes& notes);

}  // namespace zeroth::config
