// SPDX-License-Identifier: Apache-2.0
/// What a thread sleeps on that others wake, of this process or of any that maps the same memory.
#pragma once
#include <atomic>
#include <cstdint>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// One thread at a time waits; any may ring. What was written before ring() is visible after a wait that saw it.
///
///     auto const seen = bell.value();
///     if (!what_it_waits_for()) {
///       bell.wait(seen, deadline);  // does not sleep if the bell was rung since
///     }
class Bell {
 public:
  [[nodiscard]] std::uint32_t value() const noexcept { return rung_.load(std::memory_order_acquire); }
  /// Costs a system call only if somebody sleeps.
  void ring() noexcept;
  /// Returns when it has been rung since `seen`, or at `deadline`, or for no reason.
  void wait(std::uint32_t seen, Clock::time_point deadline) noexcept;

 private:
  std::atomic<std::uint32_t> rung_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "it is shared between processes");

}  // namespace zeroth::comm
