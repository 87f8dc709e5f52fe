// SPDX-License-Identifier: Apache-2.0
/// The end of a process whose job has failed, or that is told to end.
#pragma once

namespace zeroth::comm {

/// Everything that the program has printed, before the process is ended under it; nothing if nobody reads its standard
/// output.
void flush_output() noexcept;
/// After what was printed so far. Destructors and other threads' work are passed over.
[[noreturn]] void end_process(int status) noexcept;

}  // namespace zeroth::comm
