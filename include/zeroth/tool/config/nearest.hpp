// SPDX-License-Identifier: Apache-2.0
/// Guesses which of the allowed names was meant.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "zeroth/core/export.hpp"

namespace zeroth::config {

/// The number of single edits (insertions, deletions, replacements, swaps of neighbours) from one to the other,
/// ignoring case.
[[nodiscard]] ZEROTH_EXPORT std::size_t edit_distance(std::string_view from, std::string_view to);

/// The nearest of `names` if it is near enough to have been meant; otherwise empty.
[[nodiscard]] ZEROTH_EXPORT std::string_view nearest(std::string_view name, std::vector<std::string_view> const& names);

}  // namespace zeroth::config
