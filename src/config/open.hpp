// SPDX-License-Identifier: Apache-2.0
/// Values that a file leaves to the program: "auto", absent batch sizes, and an unnamed optimizer.
#pragma once
#include <string_view>
#include <vector>

#include "config/values.hpp"
#include "zeroth/config/note.hpp"
#include "zeroth/tool/config/problem.hpp"

namespace zeroth::config {

/// Fills the open values of `values` from `given`. Does not report the others.
void fill_open(Values& values, Values const& given);

/// Notes each value of `given` that differs from the final one. Call after all are derived.
void note_ignored(Values const& values, Values const& given, std::string_view who, Notes& notes);

/// Takes all of `stated`. Adds a problem for each value that the file contradicts, or that has no effect in it. `who`
/// names the source of `stated`.
void take_stated(Values& values, Values const& stated, std::string_view who, Problems& problems);

/// The values that are still open, in the order of the table. Call after derive_all().
[[nodiscard]] std::vector<OpenValue> open_values(Values const& values);

}  // namespace zeroth::config
