// SPDX-License-Identifier: Apache-2.0
/// Parts of files one after the other, the next of which a thread reads while who asked for them uses one.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "core/ordered_thread.hpp"

namespace zeroth::checkpoint {

/// For one thread, beside its own.
class ReadAhead {
 public:
  /// Fills memory with part `index`, as far as there is one, and returns how many bytes that were. On the own thread.
  using Read = std::function<std::size_t(std::size_t index, std::span<std::byte> memory)>;

  static constexpr std::size_t parts_in_memory = 2;
  /// Reads parts 0 to `count` - 1, each into a half of `memory`, which outlives this. Its end waits for the part that
  /// is being read.
  ReadAhead(std::size_t count, std::span<std::byte> memory, Read read);
  /// The next part, until the next call. Waits. Throws what reading it has thrown. At most `count` times.
  [[nodiscard]] std::span<std::byte const> next();

 private:
  void begin_next();

  std::size_t count_;
  std::array<std::span<std::byte>, parts_in_memory> memory_;
  std::array<std::size_t, parts_in_memory> filled_{};
  Read read_;
  std::size_t begun_ = 0, taken_ = 0;             // parts that are to be read; parts that next() has returned
  OrderedThread thread_{"reading a checkpoint"};  // ends first: its tasks use all of the rest
};

}  // namespace zeroth::checkpoint
