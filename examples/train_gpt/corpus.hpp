// SPDX-License-Identifier: Apache-2.0
/// The training text: the bytes of a file, or of all files of a folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace gpt {

class DataFile;

/// A file is read piece by piece on demand; all processes of a machine share the system's page cache. The files of a
/// folder and its subfolders are read into memory, concatenated in byte order of their relative paths. Immutable, so
/// threads may share it.
class Corpus {
 public:
  /// Throws ConfigError if `path` is neither a file nor a folder, SystemError if something cannot be read.
  explicit Corpus(std::filesystem::path path);
  Corpus(Corpus const&) = delete;
  Corpus& operator=(Corpus const&) = delete;
  ~Corpus();
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Reads bytes [first, first + into.size()), which must exist. Throws SystemError if the file has become shorter or
  /// can no longer be read. Does not allocate.
  void read(std::int64_t first, std::span<std::uint8_t> into) const;
  /// A hash of the size and of up to 64 evenly spaced pieces of 4 KiB. Texts that differ only between the pieces have
  /// the same hash. Never 0. Throws like read().
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<DataFile const> file_;  ///< Null for a folder:
  std::vector<std::uint8_t> memory_;
  std::int64_t size_ = 0;
};

}  // namespace gpt
