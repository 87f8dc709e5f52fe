// SPDX-License-Identifier: Apache-2.0
#include "core/large_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace zeroth {
namespace {

constexpr std::size_t large_page = 2 << 20;
constexpr int take_at_once = 25;  // MADV_COLLAPSE, which C libraries before Linux 6.1 do not name

}  // namespace

void prefer_large_pages(std::span<std::byte> memory) noexcept {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = 4096;
  auto const begin = reinterpret_cast<std::uintptr_t>(memory.data());
  auto const skipped = (page - begin % page) % page;
  if (skipped < memory.size()) {
    auto const rest = memory.subspan(skipped);
    ::madvise(rest.data(), rest.size(), MADV_HUGEPAGE);
  }
#endif
}

/// The system maps a large page of a file as one only if the address and the offset in the file have the same
/// remainder. It chooses addresses without regard to that unless `shmem_enabled` allows large pages.
void* map_shared(int file, std::int64_t bytes, int protection) noexcept {
  auto const size = static_cast<std::size_t>(bytes);
  if (size < large_page) {
    return ::mmap(nullptr, size, protection, MAP_SHARED, file, 0);
  }
  void* const room = ::mmap(nullptr, size + large_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return room;
  }
  auto* const begin = static_cast<std::byte*>(room);
  auto const skipped = (large_page - reinterpret_cast<std::uintptr_t>(begin) % large_page) % large_page;
  void* const mapped = ::mmap(begin + skipped, size, protection, MAP_SHARED | MAP_FIXED, file, 0);
  if (mapped == MAP_FAILED) {
    int const error = errno;
    ::munmap(room, size + large_page);
    errno = error;
    return mapped;
  }
  if (skipped > 0) {
    ::munmap(begin, skipped);
  }
  auto const page = static_cast<std::size_t>(::getpagesize());
  auto const end = skipped + (size + page - 1) / page * page;
  if (end < size + large_page) {
    ::munmap(begin + end, size + large_page - end);
  }
  return mapped;
}

void take_large_pages(std::span<std::byte> memory) noexcept {
#if defined(MADV_HUGEPAGE)
  prefer_large_pages(memory);
  for (std::size_t i = 0; i < memory.size(); i += large_page) {
    memory[i] = std::byte{};  // a large page is made only where a small one exists
  }
  ::madvise(memory.data(), memory.size(), take_at_once);
#endif
}

}  // namespace zeroth
