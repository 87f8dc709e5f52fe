// SPDX-License-Identifier: Apache-2.0
/// The primitive by which threads of this library wait for each other.
#pragma once
#include <atomic>
#include <cstdint>

#include "zeroth/core/clock.hpp"

namespace zeroth {

/// A number that only grows, and that threads can sleep on. Sleeps on a futex after a very short spin: unbounded
/// spinning and std::atomic::wait (which yields first) both cost whole time slices when ranks share cores.
/// Any thread may call any function. Writes before add() are visible after a wait that saw it. A thread that saw the
/// value it waited for may destroy the counter at once: add() does not access it again.
class Counter {
 public:
  Counter() = default;
  Counter(Counter const&) = delete;
  Counter& operator=(Counter const&) = delete;

  [[nodiscard]] std::uint32_t value() const noexcept { return value_of(word_.load(std::memory_order_acquire)); }
  /// Adds and wakes all sleepers; returns the new value. Costs a system call only if a thread sleeps.
  std::uint32_t add(std::uint32_t amount = 1) noexcept;
  /// Waits until the value has reached `target`, taken modulo 2^32 (at most 2^31 ahead).
  void wait_for(std::uint32_t target) const noexcept;
  /// Like wait_for(), but gives up at `deadline`. True if the value was reached.
  [[nodiscard]] bool wait_until(std::uint32_t target, Clock::time_point deadline) const noexcept;
  [[nodiscard]] static bool reached(std::uint32_t value, std::uint32_t target) noexcept {
    return static_cast<std::int32_t>(value - target) >= 0;
  }

 private:
  [[nodiscard]] static std::uint32_t value_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> 32U);
  }
  /// The value is in the upper half, where its overflow is lost; the number of sleepers is in the lower half. One word,
  /// so that one operation adds and reads whether a thread sleeps.
  mutable std::atomic<std::uint64_t> word_{0};
};

}  // namespace zeroth
