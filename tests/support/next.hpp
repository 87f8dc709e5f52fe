// SPDX-License-Identifier: Apache-2.0
/// What a grid goes through beside its own rows.
#pragma once
#include <cstddef>
#include <limits>

namespace zeroth::testing {

/// Another one of `all` with each call, in turn. After each round of `round` calls one is left out: kept from one point
/// of a grid to the next, it meets every one of as many others that come in turn.
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
