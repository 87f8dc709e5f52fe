// SPDX-License-Identifier: Apache-2.0
/// The times in which a rank's math, collectives and links are busy and slow each other down.
#pragma once
#include <deque>
#include <map>

namespace zeroth::simulate {

/// The busy intervals of one stream, in order and disjoint.
class BusyTimes {
 public:
  void add(double begin_us, double end_us) { intervals_.push_back({begin_us, end_us}); }
  /// Whether the stream is busy at `us`, and until when that state lasts.
  struct State {
    bool busy = false;
    double until_us = 0;  ///< Or infinity.
  };
  [[nodiscard]] State at(double us) const noexcept;
  /// The busy time in [begin_us, end_us).
  [[nodiscard]] double within(double begin_us, double end_us) const noexcept;
  void forget_before(double us);

 private:
  struct Interval {
    double begin_us, end_us;
  };
  /// The first interval that does not end before `us`.
  [[nodiscard]] std::deque<Interval>::const_iterator from(double us) const noexcept;
  std::deque<Interval> intervals_;
};

/// A rank's links. They send one transfer at a time, in the order of enqueueing.
class Links {
 public:
  /// Sends for a total of `us`, from `begin_us` on, in the gaps that earlier calls left. Returns the end.
  double send(double begin_us, double us);
  void forget_before(double us);

 private:
  std::map<double, double> busy_;  // {begin: end} of disjoint intervals
};

}  // namespace zeroth::simulate
