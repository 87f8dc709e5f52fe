// SPDX-License-Identifier: Apache-2.0
/// The text: bytes of a file, or of all files of a folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace gpt {

class DataFile;

/// A file is read piece by piece, as it is asked for: all processes of a machine share what the system keeps of it. The
/// files of a folder (and of the folders in it) are read into memory, one behind the other, in byte order of their
/// paths relative to it. Immutable: may be shared by threads.
class Corpus {
 public:
  /// Throws ConfigError if `path` is neither, SystemError if something cannot be read.
  explicit Corpus(std::filesystem::path path);
  Corpus(Corpus const&) = delete;
  Corpus& operator=(Corpus const&) = delete;
  ~Corpus();
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Bytes [first, first + into.size()), which must be there. Throws SystemError if the file has become shorter, or
  /// cannot be read any more. Allocates nothing.
  void read(std::int64_t first, std::span<std::uint8_t> into) const;
  /// A hash of the size and of up to 64 pieces of 4 KiB, evenly spaced. Two texts that differ between the pieces have
  /// the same one: not all is read. Never 0. Throws as read().
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<DataFile const> file_;  ///< None if it is a folder:
  std::vector<std::uint8_t> memory_;
  std::int64_t size_ = 0;
};

}  // namespace gpt
