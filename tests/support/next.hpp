// SPDX-License-Identifier: Apache-2.0
/// Values that a grid varies in addition to its own axes.
#pragma once
#include <cstddef>
#include <limits>

namespace zeroth::testing {

/// Returns the next one of `all` with each call, in turn, and skips one after each `round` calls. If it is kept across
/// the points of a grid, each value therefore meets every value of another axis with the same number of values.
template <class T, std::size_t count>
class Next {
 public:
  explicit constexpr Next(T const (&all)[count], std::size_t round = std::numeric_limits<std::size_t>::max()) noexcept
      : all_{all}, round_{round} {}
  [[nodiscard]] T const& operator()() noexcept {
    auto const place = next_ + next_ / round_;
    ++next_;
    return all_[place % count];
  }

 private:
  T const (&all_)[count];
  std::size_t round_, next_ = 0;
};

}  // namespace zeroth::testing
