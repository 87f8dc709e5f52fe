// SPDX-License-Identifier: Apache-2.0
/// A reusable barrier for a fixed number of ranks.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/counter.hpp"

namespace zeroth::comm {

/// Its uses are numbered from 1, and no rank arrives at one before all have passed the previous one. Either all ranks
/// pass a use or none does, no matter which rank abandons it and when: later access to each other's memory depends on
/// that. Writes of a rank before it arrived are visible to ranks that passed.
class Barrier {
 public:
  /// A waiting rank spins for `patience` before it sleeps.
  explicit Barrier(int world, Clock::duration patience = {}) noexcept
      : world_{static_cast<std::uint64_t>(world)}, patience_{patience} {}

  void arrive(std::uint64_t number) noexcept {
    if (arrivals_.fetch_add(1, std::memory_order_acq_rel) + 1 == number * world_) {
      complete_.add();  // the last one wakes the others, once
    }
  }
  [[nodiscard]] bool wait_until(std::uint64_t number, Clock::time_point deadline) const noexcept {
    look_for(number);
    return complete_.wait_until(static_cast<std::uint32_t>(number), deadline);
  }
  void wait_for(std::uint64_t number) const noexcept {
    look_for(number);
    complete_.wait_for(static_cast<std::uint32_t>(number));
  }

  /// Call after arriving, to give up waiting. True: no rank passes this use or a later one. False: too late, all ranks
  /// have arrived and pass.
  [[nodiscard]] bool abandon(std::uint64_t number) noexcept {
    std::uint64_t seen = arrivals_.load(std::memory_order_acquire);
    while ((seen & abandoned) == 0) {
      if (seen >= number * world_) {
        return false;
      }
      if (arrivals_.compare_exchange_weak(seen, seen | abandoned, std::memory_order_acq_rel)) {
        break;
      }
    }
    return true;
  }

 private:
  void look_for(std::uint64_t number) const noexcept {
    for (auto const end = Clock::now() + patience_; Clock::now() < end;) {
      if (Counter::reached(complete_.value(), static_cast<std::uint32_t>(number))) {
        return;
      }
    }
  }
  static constexpr std::uint64_t abandoned = std::uint64_t{1} << 63U;  // the count can never match again

  std::uint64_t world_;
  Clock::duration patience_;
  std::atomic<std::uint64_t> arrivals_{0};
  Counter complete_;
};

}  // namespace zeroth::comm
