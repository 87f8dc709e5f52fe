// SPDX-License-Identifier: Apache-2.0
/// A timeline as lines of text.
#pragma once
#include <string>

#include <zeroth/device/timeline.hpp>

namespace zeroth::tools {

/// One line per stream, from 0 to `end_us` in `columns` characters: F forward, B backward, U update, G gather, P
/// publish, R reduce, D decide, S sum, a dot for waiting, a blank for nothing. Spans shorter than a column are drawn in
/// proportion.
[[nodiscard]] std::string lanes_of(Timeline const& timeline, double end_us, int columns);

/// One line for `stream`, with a name of up to 8 letters.
[[nodiscard]] std::string lane_of(Timeline const& timeline, std::string_view stream, std::string_view name,
                                  double end_us, int columns);

}  // namespace zeroth::tools
