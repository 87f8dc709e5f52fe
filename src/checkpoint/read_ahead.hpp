// SPDX-License-Identifier: Apache-2.0
/// Parts of files one after the other, the next of which a thread reads while who asked for them uses one.
#pragma once
#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

namespace zeroth::checkpoint {

/// For one thread, beside its own.
class ReadAhead {
 public:
  /// Fills memory with part `index`, as far as there is one, and returns how many bytes that were. On the own thread.
  using Read = std::function<std::size_t(std::size_t index, std::span<std::byte> memory)>;

  /// Reads parts 0 to `count` - 1, each into a half of `memory`, which outlives this.
  ReadAhead(std::size_t count, std::span<std::byte> memory, Read read);
  ReadAhead(ReadAhead const&) = delete;
  ReadAhead& operator=(ReadAhead const&) = delete;
  ~ReadAhead();  ///< Waits for the part that is being read.
  /// The next part, until the next call. Waits. Throws what reading it has thrown. At most `count` times.
  [[nodiscard]] std::span<std::byte const> next();

 private:
  void run();

  static constexpr std::size_t parts_in_memory = 2;
  std::size_t count_;
  std::array<std::span<std::byte>, parts_in_memory> memory_;
  std::array<std::size_t, parts_in_memory> filled_{};
  Read read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0, taken_ = 0;  // parts that were read; parts that next() has returned
  std::exception_ptr error_;          // of part done_, behind which none is read
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace zeroth::checkpoint
