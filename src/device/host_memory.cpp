// SPDX-License-Identifier: Apache-2.0
#include "device/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "core/large_pages.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::device {
namespace {

/// The alignment of direct transfers, or that of a large page if the memory has room for one.
std::align_val_t alignment(std::int64_t bytes) noexcept {
  constexpr auto large_page = std::int64_t{2} << 20U;
  return static_cast<std::align_val_t>(bytes >= large_page ? large_page : std::int64_t{4096});
}

}  // namespace

HostMemory::HostMemory(std::int64_t bytes) {
  ZEROTH_EXPECTS(bytes >= 0, fmt::format("allocate_host({}): bytes must not be negative", bytes));
  auto const count = static_cast<std::size_t>(bytes);
  if (bytes > 0) {
    try {
      data_ = static_cast<std::byte*>(::operator new(count, alignment(bytes)));
    } catch (std::bad_alloc const&) {
      throw SystemError{fmt::format("cannot allocate {} bytes of host memory", bytes)};
    }
    prefer_large_pages({data_, count});
    std::fill_n(data_, count, std::byte{0});
  }
  bytes_ = bytes;
}

HostMemory::~HostMemory() { ::operator delete(data_, alignment(bytes_)); }

}  // namespace zeroth::device
