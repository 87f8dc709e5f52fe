// SPDX-License-Identifier: Apache-2.0
#include "zeroth/tool/core/whole_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <system_error>
#include <utility>

#include "core/file_size_limit.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;             // like Linux
constexpr std::size_t longest_stem = 200;  // in a partial file's name, which may have 255 bytes

/// Standard output or error, if `path` is that file. Replacing it would discard what others write there.
int standard_stream(fs::path const& path) noexcept {
  struct stat wanted {};
  if (::stat(path.c_str(), &wanted) != 0) {
    return -1;
  }
  for (int const stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status {};
    if (::fstat(stream, &status) == 0 && status.st_dev == wanted.st_dev && status.st_ino == wanted.st_ino) {
      return stream;
    }
  }
  return -1;
}

/// Opens a pipe for writing; returns -1 with errno on failure, ENXIO if it has no reader. Only the open is
/// non-blocking.
int open_pipe(fs::path const& path) noexcept {
  int const descriptor = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor >= 0) {
    static_cast<void>(::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK));
  }
  return descriptor;
}

fs::path folder_of(fs::path const& path) { return path.has_parent_path() ? path.parent_path() : fs::path{"."}; }

}  // namespace

fs::path followed(fs::path path) {
  std::error_code error;
  for (int i = 0; i < most_links && fs::is_symlink(path, error); ++i) {
    auto const link = fs::read_symlink(path, error);
    path = path.parent_path() / link;  // an absolute link replaces the whole path
  }
  return path;
}

fs::path partial_beside(fs::path const& path) {
  std::random_device random;
  auto const number = (std::uint64_t{random()} << 32U) | random();
  auto const stem = path.filename().string().substr(0, longest_stem);
  return path.parent_path() / fmt::format("{}.{:016x}.partial", stem, number);
}

int sync_folder(fs::path const& folder) noexcept {
  int const descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return 0;  // a folder that may be written and not read
  }
  int const error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;  // EINVAL: not on a disk
  ::close(descriptor);
  return error;
}

WholeFile::WholeFile(std::string_view what, fs::path path)
    : what_{what}, path_{std::move(path)}, target_{followed(path_)} {
  std::error_code error;
  auto const status = fs::status(path_, error);
  if (status.type() == fs::file_type::none) {  // a file that is not found has another type
    refuse(error.value());
  }
  open(status.type());
}

WholeFile::~WholeFile() { close(); }

void WholeFile::open(fs::file_type type) {
  if (type == fs::file_type::directory) {
    refuse(EISDIR);
  }
  if (type == fs::file_type::block) {
    refuse("it is a disk");
  }
  if (int const stream = standard_stream(path_); stream >= 0) {
    descriptor_ = ::fcntl(stream, F_DUPFD_CLOEXEC, 0);
  } else if (type == fs::file_type::fifo) {
    descriptor_ = open_pipe(path_);
    if (descriptor_ < 0 && errno == ENXIO) {
      refuse("the pipe has no reader");
    }
  } else if (type != fs::file_type::regular && type != fs::file_type::not_found) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  } else {
    auto partial = partial_beside(target_);
    descriptor_ = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      partial_ = std::move(partial);
    }
  }
  if (descriptor_ < 0) {
    refuse(errno);
  }
}

void WholeFile::write(std::span<std::byte const> bytes) {
  NoFileSizeSignal const none;
  while (!bytes.empty()) {
    auto const written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      refuse(errno);
    }
  }
}

void WholeFile::publish(Outlives outlives) {
  bool const to_disk = outlives == Outlives::machine;
  if (to_disk && !partial_.empty() && ::fsync(descriptor_) != 0) {
    refuse(errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    refuse(errno);
  }
  if (partial_.empty()) {
    return;
  }
  if (::rename(partial_.c_str(), target_.c_str()) != 0) {
    refuse(errno);
  }
  partial_.clear();
  if (int const error = to_disk ? sync_folder(folder_of(target_)) : 0; error != 0) {
    refuse(error);
  }
}

void WholeFile::close() noexcept {
  if (descriptor_ >= 0) {
    ::close(std::exchange(descriptor_, -1));
  }
  if (!partial_.empty()) {
    ::unlink(partial_.c_str());
    partial_.clear();
  }
}

void WholeFile::refuse(std::string_view reason) const {
  throw SystemError{fmt::format("{} {}: cannot be written: {}", what_, path_.string(), reason)};
}

void WholeFile::refuse(int error) const { refuse(file_error_text(error)); }

void write_whole_file(std::string_view what, fs::path const& path, std::string_view text, Outlives outlives) {
  WholeFile file{what, path};
  file.write(text);
  file.publish(outlives);
}

}  // namespace zeroth
