// SPDX-License-Identifier: Apache-2.0
#include "core/block_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "core/file_size_limit.hpp"
#include "core/file_transfer.hpp"
#include "core/logger.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

/// The memory alignment that direct transfers of this file need, as the system reports it; otherwise one that suits all
/// disks.
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

/// Negative on failure, with errno set.
int open_unnamed(std::filesystem::path const& folder) noexcept {
#if defined(O_TMPFILE)
  int const descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
    return descriptor;
  }
#endif
  // The file system has no O_TMPFILE. Only a process that dies between these two calls leaves an empty file.
  auto name = (folder / "zeroth-XXXXXX").string();
  int const made = ::mkostemp(name.data(), O_CLOEXEC);
  if (made >= 0 && ::unlink(name.c_str()) != 0) {
    int const error = errno;
    ::close(made);
    errno = error;
    return -1;
  }
  return made;
}

constexpr std::string_view written = "cannot be written", read_back = "cannot be read";

}  // namespace

BlockFile::BlockFile(std::string_view what, std::filesystem::path path, std::int64_t bytes, Direct direct)
    : what_{what}, path_{std::move(path)} {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  begin(bytes, direct, false);
}

BlockFile::BlockFile(std::string_view what, Unnamed where, std::int64_t bytes, Direct direct)
    : what_{what}, path_{std::move(where.folder)}, unnamed_{true}, descriptor_{open_unnamed(path_)} {
  begin(bytes, direct, true);
}

void BlockFile::begin(std::int64_t bytes, Direct direct, bool zeros) {
  if (descriptor_ < 0) {
    refuse(written, errno);
  }
  if (direct == Direct::on && go_direct(descriptor_)) {  // if refused, writes go through the cache
    memory_alignment_ = alignment_of_direct_memory(descriptor_);
  }
  try {
    NoFileSizeSignal const none;
    make_room(bytes);
    if (zeros && ::ftruncate(descriptor_, bytes) != 0) {
      refuse(written, errno);
    }
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

/// A disk that is too full reports it before anything is written.
void BlockFile::make_room(std::int64_t bytes) const {
  if (bytes == 0) {
    return;
  }
  int error = 0;
  do {
    error = ::fallocate(descriptor_, 0, 0, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error != 0 && error != EOPNOTSUPP && error != ENOSYS) {
    refuse(written, error);
  }
}

bool BlockFile::takes(std::byte const* data) const noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % memory_alignment_ == 0;
}

bool BlockFile::direct() const noexcept { return is_direct(descriptor_); }

void BlockFile::write(std::int64_t position, std::span<std::byte const> blocks) {
  auto const [bytes, error, left_direct] = write_all(descriptor_, position, blocks);
  if (error != 0 || bytes < blocks.size()) {
    refuse(written, error != 0 ? error : EIO);
  }
  tell(left_direct);
  forget(position, bytes, true);
}

void BlockFile::read(std::int64_t position, std::span<std::byte> blocks) const {
  auto const [bytes, error, left_direct] = read_all(descriptor_, position, blocks);
  if (error != 0 || bytes < blocks.size()) {
    refuse(read_back, error != 0 ? error : EIO);  // it has become shorter
  }
  tell(left_direct);
  forget(position, bytes, false);
}

void BlockFile::tell(bool left_direct) const {
  if (left_direct) {
    logger().warn("{}{} {}{}: the file system refused a direct transfer: from now on this file uses the system's cache",
                  rank_prefix(), what_, unnamed_ ? "in " : "", path_.string());
  }
}

/// The file replaces memory, so its pages must not stay in the system's cache.
void BlockFile::forget(std::int64_t position, std::size_t bytes, bool written_now) const noexcept {
  if (!unnamed_ || direct()) {
    return;
  }
  auto const count = static_cast<off_t>(bytes);
#if defined(SYNC_FILE_RANGE_WRITE)
  if (written_now) {
    static_cast<void>(
        ::sync_file_range(descriptor_, position, count,
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
  }
#endif
  static_cast<void>(::posix_fadvise(descriptor_, position, count, POSIX_FADV_DONTNEED));
}

void BlockFile::finish(std::int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0 || ::fsync(descriptor_) != 0) {
    refuse(written, errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    refuse(written, errno);
  }
}

std::int64_t BlockFile::bytes_on_disk() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    refuse(read_back, errno);
  }
  return std::int64_t{512} * status.st_blocks;
}

void BlockFile::refuse(std::string_view call, int error) const {
  throw SystemError{
      fmt::format("{} {}{}: {}: {}", what_, unnamed_ ? "in " : "", path_.string(), call, file_error_text(error))};
}

}  // namespace zeroth
