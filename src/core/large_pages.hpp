// SPDX-License-Identifier: Apache-2.0
/// Memory in large pages where the system has them: requests to a disk from there are not cut up, and page tables are
/// read less often.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace zeroth {

/// A wish, for memory that will all be touched: its first touch takes whole large pages (2 MiB on x86). Costs nothing,
/// and cannot fail: a system without them goes on as before.
void prefer_large_pages(std::span<std::byte> memory) noexcept;

/// Maps `bytes` of a file without a name from its start, as mmap() with MAP_SHARED, at an address from where large
/// pages of the file can be used as such. MAP_FAILED and errno where the system refuses; munmap() ends it.
[[nodiscard]] void* map_shared(int file, std::int64_t bytes, int protection) noexcept;
/// As prefer_large_pages(), for new memory of map_shared() that may be written: takes its pages at once, zeroed, and
/// for all who map the file. The system's `shmem_enabled` may say anything but `deny` (Linux 6.1; before, `advise`).
void take_large_pages(std::span<std::byte> memory) noexcept;

}  // namespace zeroth
