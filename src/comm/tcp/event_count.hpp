// SPDX-License-Identifier: Apache-2.0
/// What a thread sleeps on that others wake, of this process or of any that maps the same memory.
#pragma once
#include <atomic>
#include <cstdint>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// An eventcount: one thread at a time waits, and any thread may notify it. What was written before notify() is visible
/// after a wait that saw it.
///
///     auto const seen = event_count.value();
///     if (!what_it_waits_for()) {
///       event_count.wait(seen, deadline);  // does not sleep if it was notified since
///     }
class EventCount {
 public:
  [[nodiscard]] std::uint32_t value() const noexcept { return count_.load(std::memory_order_acquire); }
  /// Costs a system call only if somebody sleeps.
  void notify() noexcept;
  /// Returns when it has been notified since `seen`, or at `deadline`, or for no reason.
  void wait(std::uint32_t seen, Clock::time_point deadline) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "it is shared between processes");

}  // namespace zeroth::comm
