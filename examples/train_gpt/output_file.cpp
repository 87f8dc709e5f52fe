#include "output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <zeroth/core/error.hpp>

namespace gpt {

namespace {

[[noreturn]] void refuse(std::filesystem::path const& path, std::string_view call) {
  throw zeroth::SystemError{fmt::format("{}: {}: {}", path.string(), call, std::generic_category().message(errno))};
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path)
    : path_{std::move(path)},
      partial_{path_.string() + ".partial"},
      descriptor_{::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)} {
  if (descriptor_ < 0) {
    refuse(partial_, "open");
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    auto const written = ::write(descriptor_, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      refuse(partial_, "write");
    }
  }
}

void OutputFile::publish() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) {  // EINVAL: not a file on a disk, say /dev/stdout
    refuse(partial_, "fsync");
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    refuse(partial_, "close");
  }
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    refuse(path_, "rename");
  }
}

}  // namespace gpt
