// SPDX-License-Identifier: Apache-2.0
/// A rank's part in an asynchronous save: it writes the rank's file, and on rank 0 commits the checkpoint.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/arrangement.hpp"
#include "checkpoint/file_writer.hpp"
#include "checkpoint/hashes.hpp"
#include "core/block_file.hpp"
#include "core/ordered_thread.hpp"
#include "shard/offloaded_states.hpp"
#include "zeroth/checkpoint/contents.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::checkpoint {

/// A file to write. Everything but `prepare` must outlive the write.
struct FileTask {
  std::filesystem::path path;
  std::string header;
  int place = 0;                       ///< Number of the file.
  Contents const* contents = nullptr;  ///< Contains at least the contents of this file.
  std::span<Source const> sources;     ///< In device memory, in the order of the file.
  std::vector<std::byte> rank_state;   ///< Follows them.
  Direct direct = Direct::on;
  std::function<void()> prepare;               ///< Runs first.
  std::vector<device::Event const*> on_disks;  ///< Recorded when sources on disks are complete.
};

/// Host bytes that a rank's saves use for `zeroth.checkpoint.buffer_bytes`. If that is 0 and the host holds the states,
/// they are written without copying, and only unaligned or small sources go through buffers.
[[nodiscard]] std::int64_t staging_bytes(bool host_holds_states, std::int64_t buffer_bytes) noexcept;

/// Has its own thread and stream. Only the owner calls it. Calls do not wait unless they say so.
class Saver {
 public:
  enum class State : std::uint8_t { idle, writing, written, committing, committed, failed };

  /// `buffer_bytes`: memory for at least two pieces on their way to the disk; 0: see staging_bytes(). `disks` hold the
  /// sources that are on disks. The thread allocates the memory during the first write().
  Saver(device::Device& device, std::int64_t buffer_bytes, std::span<shard::OffloadedStates* const> disks);
  Saver(Saver const&) = delete;
  Saver& operator=(Saver const&) = delete;
  ~Saver();  ///< Cancels a running write and waits for it; a commit that has not begun is dropped.

  /// Starts to write the file, with the results of all work enqueued on the compute stream so far. Do not call it
  /// during another write.
  void write(FileTask task);
  /// Waits until the first `count` sources have been read, or never will be; calls `late` if that takes longer than
  /// `patience`. Returns whether it waited.
  bool await_read(std::size_t count, std::chrono::milliseconds patience, std::function<void()> const& late);
  /// Runs `action` on the saver's thread once the file is written.
  void commit(std::function<void()> action);
  /// Requests that running work stop soon, as failed.
  void cancel() noexcept { cancelled_ = true; }
  void wait();  ///< Until no work is running.
  /// Waits for at most `most`; returns whether no work is running.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds most);
  /// Host bytes allocated: see the function staging_bytes() above.
  [[nodiscard]] std::int64_t staging_bytes() const noexcept { return held_; }
  [[nodiscard]] State state() const;
  /// In state failed: the exception; null if the write was only cancelled.
  [[nodiscard]] std::exception_ptr failure() const;

 private:
  void do_work(std::function<void()> const& work, State after);
  void write_file(FileTask const& task);
  void post(std::function<void()> work, State during, State after);
  std::size_t copy_some(FileWriter& file, std::span<std::byte const> left, std::string_view unit, std::size_t most);
  std::size_t lend_some(FileWriter& file, std::span<std::byte const> left, std::string_view unit);
  void copy_from_disk(FileWriter& file, Source const& source);
  void append_hashed(FileWriter& file, std::span<std::byte const> left);
  void copy(std::byte* to, std::byte const* from, std::size_t bytes, std::string_view unit);
  void note_read(std::size_t count);

  device::Device& device_;
  bool const lends_;  // writes states to the disk without copying them
  std::int64_t const pool_bytes_;
  std::unique_ptr<device::Memory> pool_;
  std::atomic<std::int64_t> held_{0};
  std::unique_ptr<device::Event> begun_;
  std::unique_ptr<device::Stream> stream_;
  std::unordered_map<shard::OffloadedStates const*, shard::DiskWindow> windows_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  std::size_t sources_ = 0, read_ = 0;
  std::exception_ptr failure_;
  HashTable hashes_;                // of the file being written
  OrderedThread thread_{"saving"};  // destroyed first: its tasks use all of the rest
};

}  // namespace zeroth::checkpoint
