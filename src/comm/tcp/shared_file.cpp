// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/shared_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>

#include "comm/store/frame.hpp"
#include "comm/store/presence.hpp"
#include "core/file_size_limit.hpp"
#include "core/host_name.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

Descriptor make_shared_file(char const* name, std::int64_t bytes) {
  NoFileSizeSignal const none;
  Descriptor file{::memfd_create(name, MFD_CLOEXEC)};
  if (!file || (bytes > 0 && ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)) {
    throw SystemError{fmt::format("cannot create {} bytes of shared memory: {}", bytes, file_error_text(errno))};
  }
  return file;
}

SharedFile describe_file(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) {
    throw SystemError{fmt::format("fstat of shared memory: {}", error_text(errno))};
  }
  return {facts.st_dev, facts.st_ino, ::getpid(), descriptor};
}

Descriptor open_shared(SharedFile const& file, std::int64_t bytes, int flags) {
  auto const path = fmt::format("/proc/{}/fd/{}", file.process, file.descriptor);
  Descriptor const found{::open(path.c_str(), O_PATH | O_CLOEXEC)};  // which does not act on the file that it finds
  if (!found) {
    throw SystemError{
        fmt::format("{}, memory that another rank shares, cannot be opened: {}", path, error_text(errno))};
  }
  struct stat facts {};
  if (::fstat(found.get(), &facts) != 0 || facts.st_dev != file.device || facts.st_ino != file.inode ||
      facts.st_size < bytes) {
    throw SystemError{fmt::format(
        "{} is not the memory that another rank shares: /proc belongs to another namespace than this process", path)};
  }
  Descriptor opened{::open(fmt::format("/proc/self/fd/{}", found.get()).c_str(), flags | O_CLOEXEC)};
  if (!opened) {
    throw SystemError{
        fmt::format("{}, memory that another rank shares, cannot be opened: {}", path, error_text(errno))};
  }
  return opened;
}

std::string encode(SharedFile const& file) {
  return Body{}
      .number(file.device)
      .number(file.inode)
      .number(static_cast<std::uint64_t>(file.process))
      .number(static_cast<std::uint64_t>(file.descriptor) + 1)
      .take();
}

SharedFile decode_shared_file(std::string_view bytes) {
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  BodyReader reader{bytes};
  SharedFile file;
  file.device = reader.number();
  file.inode = reader.number();
  file.process = static_cast<std::int32_t>(reader.number(0, most));
  file.descriptor = static_cast<std::int32_t>(reader.number(0, most)) - 1;
  reader.end();
  return file;
}

std::string memory_domain() {
  std::array<char, 64> process_ids{};
  (void)!::readlink("/proc/self/ns/pid", process_ids.data(), process_ids.size() - 1);
  return machine_id() + " " + process_ids.data() + " " + host_name();
}

}  // namespace zeroth::comm
