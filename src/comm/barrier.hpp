// SPDX-License-Identifier: Apache-2.0
/// Where a fixed number of ranks wait for each other, again and again.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/counter.hpp"

namespace zeroth::comm {

/// Its uses are numbered from 1, and no rank comes to one before all have passed the one before. Either all ranks pass
/// one or none does, whoever abandons it and when: what they do afterwards with each other's memory depends on it.
/// What a rank wrote before it arrived is visible to those who passed.
class Barrier {
 public:
  /// A rank that waits looks for the others as long as `patience` before it sleeps.
  explicit Barrier(int world, Clock::duration patience = {}) noexcept
      : world_{static_cast<std::uint64_t>(world)}, patience_{each_has_a_core(world) ? patience : Clock::duration{0}} {}

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

  /// For a rank that has arrived and does not want to wait any longer. True: nobody passes this use or a later one.
  /// False: too late, everybody is here and passes.
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
  /// Otherwise looking keeps those from coming who are looked for.
  [[nodiscard]] static bool each_has_a_core(int world) noexcept {
    return static_cast<unsigned>(world) <= std::thread::hardware_concurrency();
  }

  static constexpr std::uint64_t abandoned = std::uint64_t{1} << 63U;  // so that the count never comes out right again

  std::uint64_t world_;
  Clock::duration patience_;
  std::atomic<std::uint64_t> arrivals_{0};
  Counter complete_;
};

}  // namespace zeroth::comm
