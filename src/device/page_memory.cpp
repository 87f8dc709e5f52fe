// SPDX-License-Identifier: Apache-2.0
#include "device/page_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "core/file_size_limit.hpp"
#include "core/large_pages.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// Whether the system would grant this much private memory now. It grants memory of a file without a check, and its
/// out-of-memory killer strikes when the memory is touched.
bool is_there(std::int64_t bytes) noexcept {
  auto const size = static_cast<std::size_t>(bytes);
  void* const tried = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return tried != MAP_FAILED && ::munmap(tried, size) == 0;
}

/// Returns a descriptor, or -1 and sets errno.
int file_without_name(std::int64_t bytes) noexcept {
  NoFileSizeSignal const none;
  int const file = ::memfd_create("zeroth memory", MFD_CLOEXEC);
  if (file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    int const error = errno;
    ::close(file);
    errno = error;
    return -1;
  }
  return file;
}

}  // namespace

PageMemory::PageMemory(Ledger& ledger, Category category, std::int64_t bytes, Pages pages)
    : ledger_{ledger}, category_{category} {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate({}, {}): bytes must not be negative", name_of(category), bytes));
  auto const refuse = [&](char const* call) {
    int const error = errno;
    if (file_ >= 0) {
      ::close(file_);
    }
    throw SystemError{
        fmt::format("{} refused {} bytes for {}: {}", call, bytes, name_of(category), file_error_text(error))};
  };
  if (bytes > 0) {
    bool const shared = pages == Pages::shared;
    if (shared && !is_there(bytes)) {
      refuse("mmap");
    }
    file_ = shared ? file_without_name(bytes) : -1;
    if (shared && file_ < 0) {
      refuse("memfd_create");
    }
    constexpr int access = PROT_READ | PROT_WRITE;
    int const flags = MAP_PRIVATE | MAP_ANONYMOUS | (pages == Pages::touched ? MAP_NORESERVE : 0);
    void* const mapped = shared ? map_shared(file_, bytes, access)
                                : mmap(nullptr, static_cast<std::size_t>(bytes), access, flags, -1, 0);
    if (mapped == MAP_FAILED) {
      refuse("mmap");
    }
    data_ = static_cast<std::byte*>(mapped);
    if (pages == Pages::all) {
      prefer_large_pages({data_, static_cast<std::size_t>(bytes)});
    }
    if (shared) {
      take_large_pages({data_, static_cast<std::size_t>(bytes)});
    }
  }
  bytes_ = bytes;
  ledger_.add(category_, bytes_);
}

PageMemory::~PageMemory() {
  ledger_.remove(category_, bytes_);
  if (data_ != nullptr) {
    munmap(data_, static_cast<std::size_t>(bytes_));
  }
  if (file_ >= 0) {
    ::close(file_);
  }
}

}  // namespace zeroth::device
