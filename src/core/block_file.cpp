// SPDX-License-Identifier: Apache-2.0
#include "core/block_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

/// What direct transfers of this file ask of memory, as the system says; where it does not, what suits all disks.
std::uintptr_t alignment_of_direct_memory([[maybe_unused]] int descriptor) noexcept {
#if defined(STATX_DIOALIGN)
  struct statx status {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0 &&
      status.stx_dio_mem_align != 0) {
    return status.stx_dio_mem_align;
  }
#endif
  return static_cast<std::uintptr_t>(block_bytes);
}

}  // namespace

BlockFile::BlockFile(std::string_view what, std::filesystem::path path, std::int64_t bytes, Direct direct)
    : what_{what}, path_{std::move(path)} {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0) {
    refuse(errno);
  }
  if (direct == Direct::on &&  // where that is refused, through the cache
      ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) | O_DIRECT) == 0) {
    memory_alignment_ = alignment_of_direct_memory(descriptor_);
  }
  try {
    make_room(bytes);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

BlockFile::~BlockFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

/// A disk that is too full says so before anything is written.
void BlockFile::make_room(std::int64_t bytes) const {
  if (bytes == 0) {
    return;
  }
  int error = 0;
  do {
    error = ::fallocate(descriptor_, 0, 0, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0 && error != EOPNOTSUPP && error != ENOSYS) {
    refuse(error);
  }
}

bool BlockFile::takes(std::byte const* data) const noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % memory_alignment_ == 0;
}

void BlockFile::write(std::int64_t position, std::span<std::byte const> blocks) {
  while (!blocks.empty()) {
    auto const written = ::pwrite(descriptor_, blocks.data(), blocks.size(), position);
    if (written > 0) {
      blocks = blocks.subspan(static_cast<std::size_t>(written));
      position += written;
    } else if (written == 0) {
      refuse(EIO);
    } else if (errno == EINVAL && (::fcntl(descriptor_, F_GETFL) & O_DIRECT) != 0) {
      // A disk with larger blocks, or the rest of a piece that was written in part.
      ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_DIRECT);
    } else if (errno != EINTR) {
      refuse(errno);
    }
  }
}

void BlockFile::finish(std::int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0 || ::fsync(descriptor_) != 0) {
    refuse(errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    refuse(errno);
  }
}

void BlockFile::refuse(int error) const {
  throw SystemError{
      fmt::format("{} {}: cannot be written: {}", what_, path_.string(), std::generic_category().message(error))};
}

}  // namespace zeroth
