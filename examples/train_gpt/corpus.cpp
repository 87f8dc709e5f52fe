#include "corpus.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include <zeroth/core/error.hpp>

namespace gpt {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(fs::path const& path, std::string_view call, int error) {
  throw zeroth::SystemError{
      fmt::format("--data {}: {}: {}", path.string(), call, std::generic_category().message(error))};
}

class File {
 public:
  explicit File(fs::path path) : path_{std::move(path)}, descriptor_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)} {
    if (descriptor_ < 0) {
      refuse(path_, "open", errno);
    }
  }
  File(File const&) = delete;
  File& operator=(File const&) = delete;
  ~File() { ::close(descriptor_); }

  [[nodiscard]] std::size_t bytes() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      refuse(path_, "fstat", errno);
    }
    return static_cast<std::size_t>(status.st_size);
  }
  /// All of it. Valid until munmap.
  [[nodiscard]] std::span<std::uint8_t const> map() const {
    auto const count = bytes();
    if (count == 0) {
      return {};
    }
    void* const data = ::mmap(nullptr, count, PROT_READ, MAP_PRIVATE, descriptor_, 0);
    if (data == MAP_FAILED) {
      refuse(path_, "mmap", errno);
    }
    return {static_cast<std::uint8_t const*>(data), count};
  }
  void append_to(std::vector<std::uint8_t>& memory) const {
    auto at = memory.size();
    memory.resize(at + bytes());
    while (at < memory.size()) {
      auto const got = ::read(descriptor_, memory.data() + at, memory.size() - at);
      if (got < 0 && errno != EINTR) {
        refuse(path_, "read", errno);
      }
      if (got == 0) {
        throw zeroth::SystemError{fmt::format("--data {}: became shorter while it was read", path_.string())};
      }
      at += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
  }

 private:
  fs::path path_;
  int descriptor_;
};

std::vector<fs::path> files_in(fs::path const& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at{folder, error}, end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file()) {
      files.push_back(at->path());
    }
  }
  if (error) {
    refuse(folder, "reading the folder", error.value());
  }
  std::ranges::sort(files, {}, [&](fs::path const& file) { return file.lexically_relative(folder).native(); });
  return files;
}

}  // namespace

Corpus::Corpus(fs::path path) : path_{std::move(path)} {
  std::error_code error;
  auto const status = fs::status(path_, error);
  if (error) {
    refuse(path_, "stat", error.value());
  }
  if (fs::is_regular_file(status)) {
    bytes_ = File{path_}.map();
  } else if (fs::is_directory(status)) {
    for (auto const& file : files_in(path_)) {
      File{file}.append_to(memory_);
    }
    bytes_ = memory_;
  } else {
    throw zeroth::ConfigError{fmt::format("--data {}: is neither a file nor a folder", path_.string())};
  }
}

Corpus::~Corpus() {
  if (memory_.empty() && !bytes_.empty()) {
    ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace gpt
