// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/event_count.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <ctime>

namespace zeroth::comm {
namespace {

// Not private to the process: several processes may map an event count's memory.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, timespec const* timeout) noexcept {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void EventCount::notify() noexcept {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    futex(count_, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

void EventCount::wait(std::uint32_t seen, Clock::time_point deadline) noexcept {
  auto const left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now()).count();
  if (left <= 0) {
    return;
  }
  constexpr std::int64_t second = 1'000'000'000;
  timespec const timeout{static_cast<std::time_t>(left / second), static_cast<long>(left % second)};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  futex(count_, FUTEX_WAIT, seen, &timeout);  // returns at once unless the value is still `seen`
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace zeroth::comm
