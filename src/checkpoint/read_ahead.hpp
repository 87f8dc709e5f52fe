// SPDX-License-Identifier: Apache-2.0
/// Reads parts of files in order: a thread reads the next one while the caller uses the current one.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "core/ordered_thread.hpp"

namespace zeroth::checkpoint {

/// Use it on one thread; it reads on a second one.
class ReadAhead {
 public:
  /// Fills memory with part `index`, as far as the file has it, and returns the number of bytes. Runs on its own
  /// thread.
  using Read = std::function<std::size_t(std::size_t index, std::span<std::byte> memory)>;

  static constexpr std::size_t parts_in_memory = 2;
  /// Reads parts 0 to `count` - 1, each into one half of `memory`, which must outlive this. The destructor waits for
  /// the part being read.
  ReadAhead(std::size_t count, std::span<std::byte> memory, Read read);
  /// The next part; valid until the next call. Waits. Rethrows the error of reading it. Call it at most `count` times.
  [[nodiscard]] std::span<std::byte const> next();

 private:
  void begin_next();

  std::size_t count_;
  std::array<std::span<std::byte>, parts_in_memory> memory_;
  std::array<std::size_t, parts_in_memory> filled_{};
  Read read_;
  std::size_t begun_ = 0, taken_ = 0;             // parts posted to the thread; parts returned by next()
  OrderedThread thread_{"reading a checkpoint"};  // destroyed first: its tasks use all of the rest
};

}  // namespace zeroth::checkpoint
