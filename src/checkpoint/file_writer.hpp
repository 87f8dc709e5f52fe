// SPDX-License-Identifier: Apache-2.0
/// A file that is filled from its begin to its end, by way of a few pieces of memory, or from where its bytes lie,
/// while a thread writes what is complete.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <queue>
#include <span>
#include <thread>
#include <vector>

#include "core/block_file.hpp"

namespace zeroth::checkpoint {

/// That are written at once, at most. Large enough for any disk, small enough to stay in a cache while it is hashed.
inline constexpr std::int64_t piece_bytes = std::int64_t{4} << 20U;

/// Throws SystemError from any call for what the thread could not write. For one thread.
class FileWriter {
 public:
  /// Makes the file, of `bytes`. `pool` outlives it, is aligned to block_bytes, and is taken as pieces of piece_bytes,
  /// or as two smaller ones.
  FileWriter(std::filesystem::path const& path, std::int64_t bytes, Direct direct, std::span<std::byte> pool);
  FileWriter(FileWriter const&) = delete;
  FileWriter& operator=(FileWriter const&) = delete;
  ~FileWriter();
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
  struct Full {
    std::span<std::byte const> blocks;
    std::int64_t position = 0;
    std::span<std::byte> piece;    // that is free then
    std::function<void()> action;  // that is done then
  };
  void push(Full full);
  void hand_over();
  void run();
  void rethrow();

  BlockFile file_;
  std::int64_t bytes_, position_ = 0;
  std::span<std::byte> current_;
  std::size_t used_ = 0;  // of current_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::span<std::byte>> free_;
  std::queue<Full> full_;
  bool writing_ = false, ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace zeroth::checkpoint
