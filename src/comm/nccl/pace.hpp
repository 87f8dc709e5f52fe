// SPDX-License-Identifier: Apache-2.0
/// Backoff of polling loops.
#pragma once
#include <algorithm>
#include <chrono>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// The sleep before the next poll, after `asked` polls have returned "not yet" in `waited`; zero means to yield. Waits
/// of up to a millisecond are noticed at once: NCCL's thread needs less for an enqueued collective, and a layer has
/// three. Then sleeps begin at 20 us and grow with the wait, to which they add 2 %, up to 200 us. The elapsed time
/// counts, too, not only the number of polls: on a machine with too few processors it passes while other threads run.
[[nodiscard]] constexpr std::chrono::microseconds rest_between(int asked, Clock::duration waited) noexcept {
  using std::chrono::microseconds;
  constexpr int fewest_asked = 1000;
  constexpr microseconds patience{1000};
  constexpr microseconds longest{200};
  if (asked < fewest_asked || waited < patience) {
    return microseconds{0};
  }
  return std::min(std::chrono::duration_cast<microseconds>(waited / 50), longest);
}

}  // namespace zeroth::comm
