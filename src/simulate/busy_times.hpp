// SPDX-License-Identifier: Apache-2.0
/// When a rank's math, collectives and links are busy, and so slow each other down.
#pragma once
#include <deque>
#include <map>

namespace zeroth::simulate {

/// The busy intervals of one stream, in order and disjoint.
class BusyTimes {
 public:
  void add(double begin_us, double end_us) { intervals_.push_back({begin_us, end_us}); }
  /// Whether it is busy from `us` on, and until when that is so.
  struct State {
    bool busy = false;
    double until_us = 0;  ///< Or infinity.
  };
  [[nodiscard]] State at(double us) const noexcept;
  /// How much of [begin_us, end_us) is busy.
  [[nodiscard]] double within(double begin_us, double end_us) const noexcept;
  void forget_before(double us);

 private:
  struct Interval {
    double begin_us, end_us;
  };
  /// The first that does not end before.
  [[nodiscard]] std::deque<Interval>::const_iterator from(double us) const noexcept;
  std::deque<Interval> intervals_;
};

/// A rank's links, which send one thing at a time: first what was enqueued first.
class Links {
 public:
  /// Sends for `us` in all, from `begin_us` on, in the gaps that earlier calls left. When it is done.
  double send(double begin_us, double us);
  void forget_before(double us);

 private:
  std::map<double, double> busy_;  // begin to end; apart from each other
};

}  // namespace zeroth::simulate
