// SPDX-License-Identifier: Apache-2.0
/// A file that is filled from its begin to its end, by way of a few pieces of memory, while a thread writes those that
/// are full.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <queue>
#include <span>
#include <thread>
#include <vector>

#include "core/block_file.hpp"

namespace zeroth::checkpoint {

/// Of memory in which a file is made. Large enough for any disk, small enough to stay in a cache while it is hashed.
inline constexpr std::int64_t piece_bytes = std::int64_t{4} << 20U;

/// Throws SystemError from any call for what the thread could not write. For one thread.
class FileWriter {
 public:
  /// Makes the file, of `bytes`. `pool` outlives it, and is at least two pieces, aligned to block_bytes.
  FileWriter(std::filesystem::path const& path, std::int64_t bytes, Direct direct, std::span<std::byte> pool);
  FileWriter(FileWriter const&) = delete;
  FileWriter& operator=(FileWriter const&) = delete;
  ~FileWriter();
  /// Memory for what comes next, at least one byte. Waits until a piece is free.
  [[nodiscard]] std::span<std::byte> room();
  /// The first `bytes` of room() are filled.
  void filled(std::size_t bytes);
  void append(std::span<std::byte const> bytes);
  /// All of it is on the disk.
  void finish();

 private:
  struct Full {
    std::span<std::byte> blocks;
    std::int64_t position;
  };
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
