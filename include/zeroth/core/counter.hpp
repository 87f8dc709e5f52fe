/// The one way in which threads of this library wait for each other.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace zeroth {

using Clock = std::chrono::steady_clock;

/// A number that only grows, and that threads can sleep on. Sleeps on a futex after a very short spin: unbounded
/// spinning and std::atomic::wait (which yields first) both cost whole time slices when ranks share cores.
/// Any thread may call anything. What was written before add() is visible after a wait that saw it.
class Counter {
 public:
  Counter() = default;
  Counter(Counter const&) = delete;
  Counter& operator=(Counter const&) = delete;

  [[nodiscard]] std::uint32_t value() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Adds and wakes all sleepers; returns the new value. Costs a system call only if somebody sleeps.
  std::uint32_t add(std::uint32_t amount = 1) noexcept;
  /// Waits until the value has reached `target`, taken modulo 2^32 (at most 2^31 ahead).
  void wait_for(std::uint32_t target) const noexcept;
  /// As wait_for, but gives up at `deadline`; true if the value was reached.
  [[nodiscard]] bool wait_until(std::uint32_t target, Clock::time_point deadline) const noexcept;
  /// Wakes all sleepers without adding, so that they look at whatever else they wait for (used with wait_until slices).
  void wake_all() noexcept;
  [[nodiscard]] static bool reached(std::uint32_t value, std::uint32_t target) noexcept {
    return static_cast<std::int32_t>(value - target) >= 0;
  }

 private:
  std::atomic<std::uint32_t> value_{0};
  mutable std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace zeroth
