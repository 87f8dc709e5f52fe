// SPDX-License-Identifier: Apache-2.0
/// Values that a file leaves to the program: "auto", batch sizes that are absent, an optimizer that is not named.
#pragma once
#include <string_view>
#include <vector>

#include "config/values.hpp"
#include "zeroth/config/note.hpp"
#include "zeroth/tool/config/problem.hpp"

namespace zeroth::config {

/// Takes from `given` what `values` leave open. Says nothing of the rest.
void fill_open(Values& values, Values const& given);

/// What of `given` is not what came of it, once all is derived.
void note_ignored(Values const& values, Values const& given, std::string_view who, Notes& notes);

/// Takes all of `stated`: a problem for each value that the file contradicts, or that plays no part in it. `who`
/// states.
void take_stated(Values& values, Values const& stated, std::string_view who, Problems& problems);

/// What is open still, in the order of the table. After derive_all().
[[nodiscard]] std::vector<OpenValue> open_values(Values const& values);

}  // namespace zeroth::config
