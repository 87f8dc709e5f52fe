// SPDX-License-Identifier: Apache-2.0
#include "corpus.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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

/// An open file; only the bytes that it had when it was opened count.
class DataFile {
 public:
  explicit DataFile(fs::path path) : path_{std::move(path)}, descriptor_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)} {
    if (descriptor_ < 0) {
      refuse(path_, "open", errno);
    }
    size_ = size_now();
  }
  DataFile(DataFile const&) = delete;
  DataFile& operator=(DataFile const&) = delete;
  ~DataFile() { ::close(descriptor_); }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  void read(std::int64_t first, std::span<std::uint8_t> into) const {
    while (!into.empty()) {
      auto const got = ::pread(descriptor_, into.data(), into.size(), first);
      if (got < 0 && errno != EINTR) {
        refuse(path_, "read", errno);
      }
      if (got == 0) {
        throw zeroth::SystemError{
            fmt::format("--data {}: had {} bytes when it was opened, but has {} now: do not change it during training",
                        path_.string(), size_, size_now())};
      }
      auto const count = std::max<ssize_t>(got, 0);
      first += count;
      into = into.subspan(static_cast<std::size_t>(count));
    }
  }

 private:
  [[nodiscard]] std::int64_t size_now() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      refuse(path_, "fstat", errno);
    }
    return status.st_size;
  }

  fs::path path_;
  int descriptor_;
  std::int64_t size_ = 0;
};

Corpus::Corpus(fs::path path) : path_{std::move(path)} {
  std::error_code error;
  auto const status = fs::status(path_, error);
  if (error) {
    refuse(path_, "stat", error.value());
  }
  if (fs::is_regular_file(status)) {
    file_ = std::make_unique<DataFile>(path_);
    size_ = file_->size();
  } else if (fs::is_directory(status)) {
    for (auto const& each : files_in(path_)) {
      DataFile const file{each};
      memory_.resize(memory_.size() + static_cast<std::size_t>(file.size()));
      file.read(0, std::span{memory_}.last(static_cast<std::size_t>(file.size())));
    }
    size_ = std::ssize(memory_);
  } else {
    throw zeroth::ConfigError{fmt::format("--data {}: is neither a file nor a folder", path_.string())};
  }
}

Corpus::~Corpus() = default;

void Corpus::read(std::int64_t first, std::span<std::uint8_t> into) const {
  if (file_) {
    file_->read(first, into);
  } else {
    std::copy_n(memory_.begin() + first, into.size(), into.begin());
  }
}

std::uint64_t Corpus::fingerprint() const {
  constexpr std::int64_t pieces = 64, piece_bytes = 4096;
  auto hash = 0xCBF29CE484222325ULL ^ static_cast<std::uint64_t>(size_);  // FNV-1a
  std::vector<std::uint8_t> piece;
  for (std::int64_t first = 0; first < size_; first += std::max(size_ / pieces, piece_bytes)) {
    piece.resize(static_cast<std::size_t>(std::min(piece_bytes, size_ - first)));
    read(first, piece);
    for (auto const byte : piece) {
      hash = (hash ^ byte) * 0x100000001B3ULL;
    }
  }
  return hash | 1U;
}

}  // namespace gpt
