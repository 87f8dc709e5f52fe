// SPDX-License-Identifier: Apache-2.0
/// A futex-based event, shared by threads of this process and of any that maps the same memory.
#pragma once
#include <atomic>
#include <cstdint>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// An eventcount: one thread at a time waits, and any thread may notify it. Writes before notify() are visible after a
/// wait that saw it.
///
///     auto const seen = event_count.value();
///     if (!what_it_waits_for()) {
///       event_count.wait(seen, deadline);  // returns at once if it was notified since
///     }
class EventCount {
 public:
  [[nodiscard]] std::uint32_t value() const noexcept { return count_.load(std::memory_order_acquire); }
  /// Costs a system call only if a thread sleeps.
  void notify() noexcept;
  /// Returns when it has been notified since `seen`, at `deadline`, or spuriously.
  void wait(std::uint32_t seen, Clock::time_point deadline) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "it is shared between processes");

}  // namespace zeroth::comm
