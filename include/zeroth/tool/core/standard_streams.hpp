// SPDX-License-Identifier: Apache-2.0
/// Robust standard output and standard error, for programs whose reader may be slow or gone.
#pragma once
#include <string>
#include <string_view>

#include "zeroth/core/clock.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

/// Call it first in main(). From then on a write to a pipe without a reader returns an error instead of killing the
/// process. Descriptors 0 to 2 that are closed are opened on /dev/null, so that no file that is opened later gets one
/// of them.
ZEROTH_EXPORT void keep_standard_streams() noexcept;

/// Writes all of `text` to standard output, however long its reader takes. After an error, which end_output() reports,
/// writes nothing more. Any thread.
ZEROTH_EXPORT void write_output(std::string_view text) noexcept;
/// Call it last in main(), and return its result: `status`, but at least 1 if some output could not be written; then it
/// also reports that on standard error.
[[nodiscard]] ZEROTH_EXPORT int end_output(std::string_view program, int status) noexcept;

/// Writes to standard error at once; up to 4096 bytes stay contiguous. Gives up after one second without a reader, so
/// that the reason for an exit can be printed without delaying the exit. Any thread.
ZEROTH_EXPORT void write_error(std::string_view text) noexcept;
/// Prints one line of the library, "zeroth: " and `text`, with write_error().
ZEROTH_EXPORT void print_error(std::string const& text) noexcept;

/// Waits until a write to `descriptor` would not block, but no longer than `deadline`. Returns whether it would not
/// block.
[[nodiscard]] ZEROTH_EXPORT bool takes_more(int descriptor, Clock::time_point deadline) noexcept;

}  // namespace zeroth
