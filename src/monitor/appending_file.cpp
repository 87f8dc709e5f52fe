// SPDX-License-Identifier: Apache-2.0
#include "monitor/appending_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/file_size_limit.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::monitor {

std::filesystem::path made_folder(std::filesystem::path folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error && !std::filesystem::is_directory(folder)) {
    throw SystemError{fmt::format("the monitor's folder {}: {}", folder.string(), error.message())};
  }
  return folder;
}

double wall_seconds() {
  return std::chrono::duration<double>{std::chrono::system_clock::now().time_since_epoch()}.count();
}

AppendingFile::AppendingFile(std::filesystem::path path) : path_{std::move(path)} {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);  // NOLINT: the mode is variadic
  if (descriptor_ < 0) {
    refuse(errno);
  }
  struct stat status = {};
  was_empty_ = ::fstat(descriptor_, &status) != 0 || status.st_size == 0;
}

AppendingFile::~AppendingFile() { ::close(descriptor_); }

void AppendingFile::write(std::string_view bytes) {
  NoFileSizeSignal const none;
  while (!bytes.empty()) {
    auto const written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      refuse(errno);
    }
    bytes.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

void AppendingFile::refuse(int error) const {
  throw SystemError{fmt::format("the monitor's file {}: {}", path_.string(), file_error_text(error))};
}

}  // namespace zeroth::monitor
