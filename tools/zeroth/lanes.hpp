/// A timeline as lines of text.
#pragma once
#include <string>

#include <zeroth/device/timeline.hpp>

namespace zeroth::tools {

/// One line per stream, from 0 to `end_us` in `columns` characters, each the letter of the work that took most of its
/// time: F forward, B backward, U update, G gather, P publish, R reduce, D decide; where there was little work a dot
/// for waiting, or a blank.
[[nodiscard]] std::string lanes_of(Timeline const& timeline, double end_us, int columns);

}  // namespace zeroth::tools
