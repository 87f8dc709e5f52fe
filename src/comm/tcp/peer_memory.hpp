// SPDX-License-Identifier: Apache-2.0
/// Memory of another process of this machine.
#pragma once
#include <cstdint>
#include <string>

namespace zeroth::comm {

/// Copies `bytes` at `address` of process `process`, which need not take part, to `to`. 0, or errno: no such process
/// (ESRCH), no such memory (EFAULT), or the kernel does not allow it (EPERM, ENOSYS).
[[nodiscard]] int read_memory(int process, std::uint64_t address, void* to, std::int64_t bytes) noexcept;

/// Lets other processes of this user read this one's memory where the kernel's module Yama would let only parents
/// do so (kernel.yama.ptrace_scope=1, the default of Ubuntu).
void allow_reading() noexcept;

/// The same in all processes that see each other's process ids and call their machine by one name; of no others.
[[nodiscard]] std::string memory_domain();

}  // namespace zeroth::comm
