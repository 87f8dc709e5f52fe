// SPDX-License-Identifier: Apache-2.0
/// A new file that is written, and read again, in large blocks, past the system's cache where the file system lets it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace zeroth {

/// Whether the system's cache of files is gone round (O_DIRECT), where that can be.
enum class Direct : bool { off, on };

/// What direct transfers ask of memory, places and sizes, on all common disks.
inline constexpr std::int64_t block_bytes = 4096;
/// The least multiple of block_bytes that is not below `bytes`.
[[nodiscard]] constexpr std::int64_t whole_blocks(std::int64_t bytes) noexcept {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

/// Throws SystemError: `what` the file is, its path, and the reason. What was not finished is left where it is. Any
/// number of threads may read and write, at different places.
class BlockFile {
 public:
  /// Makes it, with room for `bytes` where the file system can promise that. There must be none at `path`.
  BlockFile(std::string_view what, std::filesystem::path path, std::int64_t bytes, Direct direct);
  /// Of a file that has no name.
  struct Unnamed {
    std::filesystem::path folder;
  };
  /// Likewise, of `bytes` zeros, on the disk of `folder`: gone with this and with the process, however that ends.
  BlockFile(std::string_view what, Unnamed where, std::int64_t bytes, Direct direct);
  BlockFile(BlockFile const&) = delete;
  BlockFile& operator=(BlockFile const&) = delete;
  ~BlockFile();
  /// Can memory that begins at `data` be written from? What is aligned to block_bytes always can.
  [[nodiscard]] bool takes(std::byte const* data) const noexcept;
  /// From byte `position` on. Position and size are multiples of block_bytes, and takes(blocks.data()).
  void write(std::int64_t position, std::span<std::byte const> blocks);
  /// What was written there, or zeros. Likewise.
  void read(std::int64_t position, std::span<std::byte> blocks) const;
  /// The file has `bytes`, and all of them are on the disk.
  void finish(std::int64_t bytes);
  /// Is the system's cache gone round?
  [[nodiscard]] bool direct() const noexcept;
  [[nodiscard]] std::int64_t bytes_on_disk() const;  ///< That it takes.

 private:
  void begin(std::int64_t bytes, Direct direct, bool zeros);
  void make_room(std::int64_t bytes) const;
  void forget(std::int64_t position, std::size_t bytes, bool written) const noexcept;
  void tell(bool left_direct) const;
  [[noreturn]] void refuse(std::string_view call, int error) const;

  std::string what_;
  std::filesystem::path path_;
  bool unnamed_ = false;
  int descriptor_ = -1;
  std::uintptr_t memory_alignment_ = 1;
};

}  // namespace zeroth
