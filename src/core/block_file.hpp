// SPDX-License-Identifier: Apache-2.0
/// A new file that is written and read again in large blocks, bypassing the system's cache if the file system allows
/// it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace zeroth {

/// Whether to bypass the system's file cache (O_DIRECT) if possible.
enum class Direct : bool { off, on };

/// The alignment that direct transfers need on all common disks, for memory, offsets and sizes.
inline constexpr std::int64_t block_bytes = 4096;
/// `bytes`, rounded up to a multiple of block_bytes.
[[nodiscard]] constexpr std::int64_t whole_blocks(std::int64_t bytes) noexcept {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

/// Errors are SystemError with `what` the file is, its path and the reason. An unfinished file stays where it is. Any
/// number of threads may read and write, at different offsets.
class BlockFile {
 public:
  /// Creates the file and reserves `bytes` if the file system can. `path` must not exist.
  BlockFile(std::string_view what, std::filesystem::path path, std::int64_t bytes, Direct direct);
  /// Selects a file without a name, in `folder`.
  struct Unnamed {
    std::filesystem::path folder;
  };
  /// Creates an unnamed file of `bytes` zeros on the disk of `folder`. It disappears with this object, and with the
  /// process, however that ends.
  BlockFile(std::string_view what, Unnamed where, std::int64_t bytes, Direct direct);
  BlockFile(BlockFile const&) = delete;
  BlockFile& operator=(BlockFile const&) = delete;
  ~BlockFile();
  /// Whether write() accepts memory that begins at `data`. Memory aligned to block_bytes is always accepted.
  [[nodiscard]] bool takes(std::byte const* data) const noexcept;
  /// Writes at byte `position`. Position and size are multiples of block_bytes, and takes(blocks.data()) must hold.
  void write(std::int64_t position, std::span<std::byte const> blocks);
  /// Reads what was written at byte `position`, or zeros. The same conditions as for write().
  void read(std::int64_t position, std::span<std::byte> blocks) const;
  /// Sets the file's size to `bytes` and flushes it to the disk.
  void finish(std::int64_t bytes);
  /// Whether the system's cache is bypassed.
  [[nodiscard]] bool direct() const noexcept;
  [[nodiscard]] std::int64_t bytes_on_disk() const;  ///< Blocks allocated on the disk, in bytes.

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
