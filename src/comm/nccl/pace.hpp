// SPDX-License-Identifier: Apache-2.0
/// How long who asks again and again rests between questions.
#pragma once
#include <algorithm>
#include <chrono>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

/// Before the next question, when `asked` have been answered with "not yet" in `waited`; zero: only give the processor
/// away. What takes up to a millisecond is learned at once: an enqueued collective takes NCCL's thread less, and a
/// layer has three. Then rests begin at 20 us and grow with the wait, of which they add 2 %, to 200 us. Time counts
/// from where questions were asked, too: on a machine with too few processors it passes while others run.
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
