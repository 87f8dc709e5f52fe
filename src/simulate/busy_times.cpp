#include "simulate/busy_times.hpp"

#include <algorithm>
#include <iterator>

namespace zeroth::simulate {

double BusyTimes::within(double begin_us, double end_us) const noexcept {
  auto each = std::upper_bound(intervals_.begin(), intervals_.end(), begin_us,
                               [](double us, Interval const& interval) { return us < interval.end_us; });
  double busy = 0;
  for (; each != intervals_.end() && each->begin_us < end_us; ++each) {
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
  double at = begin_us;  // everything from begin_us to here is taken
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
