// SPDX-License-Identifier: Apache-2.0
#include "core/counter.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>
#include <ctime>

namespace zeroth {
namespace {

// A few polls: enough if the other side is about to finish on another core, useless if both share one.
constexpr int spins = 64;

static_assert(sizeof(std::atomic<std::uint64_t>) == 8 && std::atomic<std::uint64_t>::is_always_lock_free);

/// The half of the word that holds the value, which the kernel compares.
std::uint32_t const* futex_word(std::atomic<std::uint64_t> const& word) noexcept {
  return reinterpret_cast<std::uint32_t const*>(&word) + (std::endian::native == std::endian::little ? 1 : 0);
}

void futex_wait(std::uint32_t const* address, std::uint32_t seen, std::chrono::nanoseconds left) noexcept {
  timespec const timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  // Returns on a wake, a changed value, a signal or the timeout. Callers check again in every case.
  syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

void pause_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::uint32_t Counter::add(std::uint32_t amount) noexcept {
  auto const* address = futex_word(word_);
  std::uint64_t const before = word_.fetch_add(std::uint64_t{amount} << 32U, std::memory_order_acq_rel);
  // From here on *this may be destroyed. If its memory has been reused, the wake below is a spurious one there.
  if (static_cast<std::uint32_t>(before) != 0) {
    syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
  return value_of(before) + amount;
}

void Counter::wait_for(std::uint32_t target) const noexcept {
  if (reached(value(), target)) {
    return;  // before a clock is read
  }
  while (!wait_until(target, Clock::now() + std::chrono::hours{1})) {
  }
}

bool Counter::wait_until(std::uint32_t target, Clock::time_point deadline) const noexcept {
  for (int i = 0; i < spins; ++i) {
    if (reached(value(), target)) {
      return true;
    }
    pause_core();
  }
  while (true) {
    // One operation announces the sleeper and reads the value. It sees any earlier add(); any later add() sees the
    // sleeper.
    std::uint32_t const seen = value_of(word_.fetch_add(1, std::memory_order_acq_rel));
    bool const done = reached(seen, target);
    auto const left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
    if (!done && left.count() > 0) {
      futex_wait(futex_word(word_), seen, left);
    }
    std::uint32_t const now = value_of(word_.fetch_sub(1, std::memory_order_acq_rel));
    if (reached(now, target)) {
      return true;
    }
    if (left.count() <= 0) {
      return false;
    }
  }
}

}  // namespace zeroth
