// SPDX-License-Identifier: Apache-2.0
#include "device/page_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "zeroth/core/error.hpp"

namespace zeroth::device {

PageMemory::PageMemory(Ledger& ledger, Category category, std::int64_t bytes, Pages pages)
    : ledger_{ledger}, category_{category} {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate({}, {}): bytes must not be negative", name_of(category), bytes));
  if (bytes > 0) {
    int const flags = MAP_PRIVATE | MAP_ANONYMOUS | (pages == Pages::touched ? MAP_NORESERVE : 0);
    void* const mapped = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == MAP_FAILED) {
      throw SystemError{fmt::format("mmap refused {} bytes for {}: {}", bytes, name_of(category),
                                    std::generic_category().message(errno))};
    }
    data_ = static_cast<std::byte*>(mapped);
  }
  bytes_ = bytes;
  ledger_.add(category_, bytes_);
}

PageMemory::~PageMemory() {
  ledger_.remove(category_, bytes_);
  if (data_ != nullptr) {
    munmap(data_, static_cast<std::size_t>(bytes_));
  }
}

}  // namespace zeroth::device
