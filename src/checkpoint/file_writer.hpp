// SPDX-License-Identifier: Apache-2.0
/// Writes a file from begin to end on a thread, through a few pieces of memory or without copying.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <queue>
#include <span>

#include "core/block_file.hpp"
#include "core/ordered_thread.hpp"

namespace zeroth::checkpoint {

/// Maximum bytes per write: large enough for any disk, small enough to stay in a cache while it is hashed.
inline constexpr std::int64_t piece_bytes = std::int64_t{4} << 20U;

/// Any call throws SystemError if the thread could not write. Use it on one thread.
class FileWriter {
 public:
  /// Creates the file, of `bytes` bytes. `pool` must outlive it and be aligned to block_bytes. It is split into pieces
  /// of piece_bytes, or into two smaller ones.
  FileWriter(std::filesystem::path const& path, std::int64_t bytes, Direct direct, std::span<std::byte> pool);
  /// Memory for the next bytes, at least one. Waits until a piece is free.
  [[nodiscard]] std::span<std::byte> room();
  /// Appends the first `bytes` of room().
  void filled(std::size_t bytes);
  void append(std::span<std::byte const> bytes);
  /// Bytes missing to a multiple of block_bytes. lend() requires 0.
  [[nodiscard]] std::size_t to_next_block() const noexcept;
  /// Whether memory that begins at `data` can be lent.
  [[nodiscard]] bool takes(std::byte const* data) const noexcept { return file_.takes(data); }
  /// Writes the next bytes, a multiple of block_bytes, without copying. Do not modify them until they are written.
  void lend(std::span<std::byte const> blocks);
  /// The thread calls `action` once everything lent so far is written; never if writing fails.
  void after_lent(std::function<void()> action);
  /// Writes the rest and waits until the file is on the disk.
  void finish();

 private:
  /// A piece of the pool.
  struct Piece {
    std::span<std::byte> memory;
    std::int64_t last_task = 0;  ///< The piece is free after this task.
  };
  void write(std::span<std::byte const> blocks);
  void hand_over();

  BlockFile file_;
  std::int64_t bytes_, position_ = 0;
  std::span<std::byte> current_;
  std::size_t used_ = 0;      // bytes used of current_
  std::queue<Piece> pieces_;  // the other pieces
  std::int64_t last_task_ = 0;
  OrderedThread thread_{"the writer of a checkpoint"};  // destroyed first: its tasks use all of the rest
};

}  // namespace zeroth::checkpoint
