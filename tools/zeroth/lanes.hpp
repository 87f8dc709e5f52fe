/// A timeline as lines of text.
#pragma once
#include <string>

#include <zeroth/device/timeline.hpp>

namespace zeroth::tools {

/// One line per stream, `columns` wide, each column the letter of the work that took most of its time: F forward, B
/// backward, U update, G gather, P publish, R reduce, D decide, and where there was little work a dot for waiting or a
/// blank.
[[nodiscard]] std::string lanes_of(Timeline const& timeline, int columns);

}  // namespace zeroth::tools
