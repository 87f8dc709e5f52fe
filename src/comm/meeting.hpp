/// Where a fixed number of ranks meet, again and again.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "zeroth/core/counter.hpp"

namespace zeroth::comm {

/// Meetings are numbered from 1, and no rank comes to one before all have passed the one before. Either all ranks pass
/// a meeting or none does, whoever gives up and when: what they do afterwards with each other's memory depends on it.
/// What a rank wrote before it arrived is visible to those who passed.
class Meeting {
 public:
  /// A rank that waits looks for the others as long as `patience` before it sleeps.
  explicit Meeting(int world, Clock::duration patience = {}) noexcept
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

  /// For a rank that has arrived and does not want to wait any longer. True: nobody passes this meeting or a later one.
  /// False: too late, everybody is here and passes.
  [[nodiscard]] bool give_up(std::uint64_t number) noexcept {
    std::uint64_t seen = arrivals_.load(std::memory_order_acquire);
    while ((seen & given_up) == 0) {
      if (seen >= number * world_) {
        return false;
      }
      if (arrivals_.compare_exchange_weak(seen, seen | given_up, std::memory_order_acq_rel)) {
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

  static constexpr std::uint64_t given_up = std::uint64_t{1} << 63U;  // so that the count never comes out right again

  std::uint64_t world_;
  Clock::duration patience_;
  std::atomic<std::uint64_t> arrivals_{0};
  Counter complete_;
};

}  // namespace zeroth::comm
