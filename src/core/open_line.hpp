// SPDX-License-Identifier: Apache-2.0
/// The last line of a terminal, which other output may follow before it is ended.
#pragma once
#include <atomic>
#include <string_view>

namespace zeroth {

/// Set by write_over(), which does not end its line. The next writer must end it first.
inline std::atomic<bool> line_is_open{false};

/// Like write_output(), but does not end an open line.
void write_behind_line(std::string_view text) noexcept;

}  // namespace zeroth
