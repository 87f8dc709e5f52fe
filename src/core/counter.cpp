#include "zeroth/core/counter.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace zeroth {
namespace {

// A handful of looks: enough when the other side is just finishing on another core, nothing on a shared one.
constexpr int spins = 64;

void futex_wait(std::atomic<std::uint32_t> const& word, std::uint32_t seen, timespec const* timeout) noexcept {
  // Returns on a wake, a change of the word, a signal or the timeout: callers look again in every case.
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, timeout, nullptr, 0);
}

}  // namespace

std::uint32_t Counter::add(std::uint32_t amount) noexcept {
  std::uint32_t const now = value_.fetch_add(amount, std::memory_order_seq_cst) + amount;
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    wake_all();
  }
  return now;
}

void Counter::wake_all() noexcept { syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

void Counter::wait_for(std::uint32_t target) const noexcept {
  while (!wait_until(target, Clock::now() + std::chrono::hours{1})) {
  }
}

bool Counter::wait_until(std::uint32_t target, Clock::time_point deadline) const noexcept {
  for (int i = 0; i < spins; ++i) {
    if (reached(value(), target)) {
      return true;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  while (true) {
    // Announce first, look again, then sleep: add() changes the word before it looks for sleepers, so no wake is lost.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    std::uint32_t const seen = value_.load(std::memory_order_seq_cst);
    bool const done = reached(seen, target);
    auto const left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now()).count();
    if (!done && left > 0) {
      timespec const timeout{left / 1'000'000'000, left % 1'000'000'000};
      futex_wait(value_, seen, &timeout);
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    if (done || reached(value(), target)) {
      return true;
    }
    if (left <= 0) {
      return false;
    }
  }
}

}  // namespace zeroth
