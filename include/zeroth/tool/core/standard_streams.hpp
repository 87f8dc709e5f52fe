// SPDX-License-Identifier: Apache-2.0
/// Standard output and standard error of programs that nobody may read, or not any more.
#pragma once
#include <string>
#include <string_view>

#include "zeroth/core/clock.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

/// The first thing in main(): a pipe that nobody reads any more is an error of the call from now on, and not the end of
/// the process; and what was closed of the three leads nowhere, so that no file that is opened later is written to as
/// one of them.
ZEROTH_EXPORT void keep_standard_streams() noexcept;

/// All of `text`, however long its reader takes. After an error that end_output() tells nothing is written any more.
/// Any thread.
ZEROTH_EXPORT void write_output(std::string_view text) noexcept;
/// The last thing in main(), which returns this: `status`, but at least 1 if not all output could be written, which is
/// then said on standard error.
[[nodiscard]] ZEROTH_EXPORT int end_output(std::string_view program, int status) noexcept;

/// On standard error, at once, and up to 4096 bytes whole. Given up after a second in which nobody reads, so that what
/// ends a program can always be said and never holds it up. Any thread.
ZEROTH_EXPORT void write_error(std::string_view text) noexcept;
/// One line of the library's, "zeroth: " and `text`, as write_error() writes.
ZEROTH_EXPORT void print_error(std::string const& text) noexcept;

/// Whether a write to `descriptor` would not wait, or is seen not to before `deadline`.
[[nodiscard]] ZEROTH_EXPORT bool takes_more(int descriptor, Clock::time_point deadline) noexcept;

}  // namespace zeroth
