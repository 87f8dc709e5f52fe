// SPDX-License-Identifier: Apache-2.0
#include "simulate/busy_times.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace zeroth::simulate {

std::deque<BusyTimes::Interval>::const_iterator BusyTimes::from(double us) const noexcept {
  return std::upper_bound(intervals_.begin(), intervals_.end(), us,
                          [](double at, Interval const& interval) { return at < interval.end_us; });
}

BusyTimes::State BusyTimes::at(double us) const noexcept {
  auto const next = from(us);
  if (next == intervals_.end()) {
    return {false, std::numeric_limits<double>::infinity()};
  }
  bool const busy = next->begin_us <= us;
  return {busy, busy ? next->end_us : next->begin_us};
}

double BusyTimes::within(double begin_us, double end_us) const noexcept {
  double busy = 0;
  for (auto each = from(begin_us); each != intervals_.end() && each->begin_us < end_us; ++each) {
    busy += std::min(end_us, each->end_us) - std::max(begin_us, each->begin_us);
  }
  return busy;
}

void BusyTimes::forget_before(double us) {
  while (!intervals_.empty() && intervals_.front().end_us <= us) {
    intervals_.pop_front();
  }
}

double Links::send(double begin_us, double us) {
  if (!(us > 0)) {
    return begin_us;
  }
  double left = us;
  double at = begin_us;  // everything from begin_us to here is busy
  double merged_begin = begin_us;
  auto next = busy_.upper_bound(begin_us);
  if (next != busy_.begin() && std::prev(next)->second >= begin_us) {
    --next;
    merged_begin = next->first;
  }
  while (next != busy_.end() && at + left > next->first) {
    left -= std::max(0.0, next->first - at);
    at = next->second;
    next = busy_.erase(next);
  }
  double const end = at + left;
  busy_[merged_begin] = end;
  return end;
}

void Links::forget_before(double us) {
  while (!busy_.empty() && busy_.begin()->second <= us) {
    busy_.erase(busy_.begin());
  }
}

}  // namespace zeroth::simulate
