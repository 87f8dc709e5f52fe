// SPDX-License-Identifier: Apache-2.0
#include "core/file_transfer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/file_size_limit.hpp"

namespace zeroth {
namespace {

/// Returns false if the cache was in use already.
bool leave_direct(int descriptor) noexcept {
  int const flags = ::fcntl(descriptor, F_GETFL);
  return (flags & O_DIRECT) != 0 && ::fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) == 0;
}

/// `call(offset)` transfers the rest from `offset` on, or part of it.
template <class F>
Transferred all_of(int descriptor, std::size_t bytes, F const& call) noexcept {
  Transferred result;
  bool through_cache = false;
  while (result.bytes < bytes) {
    auto const moved = call(result.bytes);
    if (moved > 0) {
      result.bytes += static_cast<std::size_t>(moved);
    } else if (moved == 0) {
      break;
    } else if (errno == EINVAL && !through_cache) {  // also if a concurrent transfer has just left O_DIRECT
      through_cache = true;
      result.left_direct = leave_direct(descriptor);
    } else if (errno != EINTR) {
      result.error = errno;
      break;
    }
  }
  return result;
}

}  // namespace

Transferred read_all(int descriptor, std::int64_t position, std::span<std::byte> memory) noexcept {
  return all_of(descriptor, memory.size(), [&](std::size_t done) {
    return ::pread(descriptor, memory.data() + done, memory.size() - done, position + static_cast<std::int64_t>(done));
  });
}

Transferred write_all(int descriptor, std::int64_t position, std::span<std::byte const> memory) noexcept {
  NoFileSizeSignal const none;
  return all_of(descriptor, memory.size(), [&](std::size_t done) {
    return ::pwrite(descriptor, memory.data() + done, memory.size() - done, position + static_cast<std::int64_t>(done));
  });
}

bool is_direct(int descriptor) noexcept { return (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0; }

bool go_direct(int descriptor) noexcept {
  return ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_DIRECT) == 0;
}

}  // namespace zeroth
