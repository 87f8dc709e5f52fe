// SPDX-License-Identifier: Apache-2.0
/// Memory in large pages, if the system has them. Disk requests from it are not split up, and page tables are read less
/// often.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace zeroth {

/// A hint for memory that will all be touched: its first touch allocates whole large pages (2 MiB on x86). It costs
/// nothing and cannot fail; a system without large pages ignores it.
void prefer_large_pages(std::span<std::byte> memory) noexcept;

/// Maps `bytes` of an unnamed file from its start, like mmap() with MAP_SHARED, at an address that allows large pages
/// of the file. Returns MAP_FAILED and sets errno on failure. Unmap with munmap().
[[nodiscard]] void* map_shared(int file, std::int64_t bytes, int protection) noexcept;
/// Like prefer_large_pages(), for new, writable memory of map_shared(). Allocates its pages at once, zeroed, for all
/// processes that map the file. Works with every value of the system's `shmem_enabled` except `deny` (before Linux 6.1
/// only with `advise`).
void take_large_pages(std::span<std::byte> memory) noexcept;

}  // namespace zeroth
