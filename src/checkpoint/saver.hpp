// SPDX-License-Identifier: Apache-2.0
/// A rank's part in saving, beside training: its file, and on rank 0 what gives the checkpoint its name.
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

/// What a file is made of. All outlive its writing but `prepare`.
struct FileTask {
  std::filesystem::path path;
  std::string header;
  int place = 0;                       ///< Whose file it is.
  Contents const* contents = nullptr;  ///< At least what this file has.
  std::span<Source const> sources;     ///< On the device, in the order of the file.
  Direct direct = Direct::on;
  std::function<void()> prepare;               ///< Comes first.
  std::vector<device::Event const*> on_disks;  ///< When the sources that are on disks are there.
};

/// Of the host, that a rank's saves take for `zeroth.checkpoint.buffer_bytes`. Where that is 0 and the host holds the
/// states, they are written from where they lie, and only what is not aligned or is small goes through pieces.
[[nodiscard]] std::int64_t staging_bytes(bool host_holds_states, std::int64_t buffer_bytes) noexcept;

/// Has a thread and a stream of its own. Calls are the owner's, and none waits but those that say so.
class Saver {
 public:
  enum class State : std::uint8_t { idle, writing, written, committing, committed, failed };

  /// `buffer_bytes` of memory for pieces on their way to the disk, at least two of them; 0: see staging_bytes().
  /// `disks` have the sources that are on any. The memory is taken on the thread, by the first write().
  Saver(device::Device& device, std::int64_t buffer_bytes, std::span<shard::OffloadedStates* const> disks);
  Saver(Saver const&) = delete;
  Saver& operator=(Saver const&) = delete;
  ~Saver();  ///< Waits for what is under way, which it cancels; a commit that has not begun is left out.

  /// What the compute stream has been given so far is in the file. Not while another one is written.
  void write(FileTask task);
  /// Waits until the first `count` sources have been read, or never will be; calls `late` where that takes longer than
  /// `patience`. Returns whether it took any time.
  bool await_read(std::size_t count, std::chrono::milliseconds patience, std::function<void()> const& late);
  /// Are all?
  [[nodiscard]] bool all_read() const;
  /// Once the file is written: runs `action` on the saver's thread.
  void commit(std::function<void()> action);
  /// Asks what is under way to end soon, as failed.
  void cancel() noexcept { cancelled_ = true; }
  void wait();  ///< Until nothing is under way.
  /// The same, for at most `most`; whether nothing is.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds most);
  /// That it holds: see staging_bytes() above.
  [[nodiscard]] std::int64_t staging_bytes() const noexcept { return held_; }
  [[nodiscard]] State state() const;
  /// In state failed: what was thrown; null if it was only cancelled.
  [[nodiscard]] std::exception_ptr failure() const;

 private:
  void do_work(std::function<void()> const& work, State after);
  void write_file(FileTask const& task);
  void post(std::function<void()> work, State during, State after);
  std::size_t copy_some(FileWriter& file, std::span<std::byte const> left, std::string_view unit, std::size_t most);
  std::size_t lend_some(FileWriter& file, std::span<std::byte const> left, std::string_view unit);
  void copy_from_disk(FileWriter& file, Source const& source);
  void copy(std::byte* to, std::byte const* from, std::size_t bytes, std::string_view unit);
  void note_read(std::size_t count);

  device::Device& device_;
  bool const lends_;  // states to the disk, where they lie
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
  HashTable hashes_;                // of the file that is written
  OrderedThread thread_{"saving"};  // ends first: its tasks use all of the rest
};

}  // namespace zeroth::checkpoint
