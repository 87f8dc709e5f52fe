// SPDX-License-Identifier: Apache-2.0
/// Ends a process whose job has failed, or that was told to end.
#pragma once

namespace zeroth::comm {

/// Flushes everything that the program has printed, before the process is ended. Does nothing if its standard output
/// has no reader.
void flush_output() noexcept;
/// Flushes the output, then ends the process. Skips destructors and the work of other threads.
[[noreturn]] void end_process(int status) noexcept;

}  // namespace zeroth::comm
