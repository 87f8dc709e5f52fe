// SPDX-License-Identifier: Apache-2.0
/// What values may not say together.
#pragma once
#include "config/values.hpp"
#include "zeroth/config/note.hpp"
#include "zeroth/tool/config/problem.hpp"

namespace zeroth::config {

/// Adds a problem for each contradiction. A rule that needs a value that is not known says nothing.
void check_rules(Values const& values, Problems& problems);

/// Adds a note for what is allowed, but may not be what was meant.
void note_assumptions(Values const& values, Notes& notes);

}  // namespace zeroth::config
