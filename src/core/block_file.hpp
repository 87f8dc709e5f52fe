// SPDX-License-Identifier: Apache-2.0
/// A new file that is written in large blocks, past the system's cache where the file system lets it.
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

/// Throws SystemError: `what` the file is, its path, and the reason. What was not finished is left where it is. For one
/// thread at a time.
class BlockFile {
 public:
  /// Makes it, with room for `bytes` where the file system can promise that. There must be none at `path`.
  BlockFile(std::string_view what, std::filesystem::path path, std::int64_t bytes, Direct direct);
  BlockFile(BlockFile const&) = delete;
  BlockFile& operator=(BlockFile const&) = delete;
  ~BlockFile();
  /// Can memory that begins at `data` be written from? What is aligned to block_bytes always can.
  [[nodiscard]] bool takes(std::byte const* data) const noexcept;
  /// From byte `position` on. Position and size are multiples of block_bytes, and takes(blocks.data()).
  void write(std::int64_t position, std::span<std::byte const> blocks);
  /// The file has `bytes`, and all of them are on the disk.
  void finish(std::int64_t bytes);

 private:
  void make_room(std::int64_t bytes) const;
  [[noreturn]] void refuse(int error) const;

  std::string what_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uintptr_t memory_alignment_ = 1;
};

}  // namespace zeroth
