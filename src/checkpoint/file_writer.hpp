// SPDX-License-Identifier: Apache-2.0
/// A file that is filled from its begin to its end, by way of a few pieces of memory, or from where its bytes lie,
/// while a thread writes what is complete.
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

/// That are written at once, at most. Large enough for any disk, small enough to stay in a cache while it is hashed.
inline constexpr std::int64_t piece_bytes = std::int64_t{4} << 20U;

/// Throws SystemError from any call for what the thread could not write. For one thread.
class FileWriter {
 public:
  /// Makes the file, of `bytes`. `pool` outlives it, is aligned to block_bytes, and is taken as pieces of piece_bytes,
  /// or as two smaller ones.
  FileWriter(std::filesystem::path const& path, std::int64_t bytes, Direct direct, std::span<std::byte> pool);
  /// Memory for what comes next, at least one byte. Waits until a piece is free.
  [[nodiscard]] std::span<std::byte> room();
  /// The first `bytes` of room() are filled.
  void filled(std::size_t bytes);
  void append(std::span<std::byte const> bytes);
  /// How many bytes are missing to a multiple of block_bytes: lend() comes where there are none.
  [[nodiscard]] std::size_t to_next_block() const noexcept;
  /// Can memory that begins at `data` be lent?
  [[nodiscard]] bool takes(std::byte const* data) const noexcept { return file_.takes(data); }
  /// What comes next, a multiple of block_bytes, is written from where it lies: it stays as it is until then.
  void lend(std::span<std::byte const> blocks);
  /// Once all that was lent so far is written, the thread calls `action`; never, if it cannot be.
  void after_lent(std::function<void()> action);
  /// All of it is on the disk.
  void finish();

 private:
  /// Of the pool.
  struct Piece {
    std::span<std::byte> memory;
    std::int64_t last_task = 0;  ///< After which it is free.
  };
  void write(std::span<std::byte const> blocks);
  void hand_over();

  BlockFile file_;
  std::int64_t bytes_, position_ = 0;
  std::span<std::byte> current_;
  std::size_t used_ = 0;      // of current_
  std::queue<Piece> pieces_;  // all others
  std::int64_t last_task_ = 0;
  OrderedThread thread_{"the writer of a checkpoint"};  // ends first: its tasks use all of the rest
};

}  // namespace zeroth::checkpoint
