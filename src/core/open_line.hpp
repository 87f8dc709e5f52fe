// SPDX-License-Identifier: Apache-2.0
/// The last line of a terminal, which something may be written behind.
#pragma once
#include <atomic>
#include <string_view>

namespace zeroth {

/// write_over() has left it without its end. What is written next takes that upon itself.
inline std::atomic<bool> line_is_open{false};

/// write_output() of what ends no line that is open.
void write_behind_line(std::string_view text) noexcept;

}  // namespace zeroth
