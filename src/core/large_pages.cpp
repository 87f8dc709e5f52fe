// SPDX-License-Identifier: Apache-2.0
#include "core/large_pages.hpp"

#include <sys/mman.h>

#include <cstdint>

namespace zeroth {

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

}  // namespace zeroth
