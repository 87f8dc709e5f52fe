// SPDX-License-Identifier: Apache-2.0
/// Dropout's two passes over activations.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu/kernels/rows.hpp"
#include "dropped.hpp"

namespace gpt::cpu {

namespace detail {

template <class T>
[[nodiscard]] WideOf<T> wide(T value) {
  if constexpr (std::same_as<T, WideOf<T>>) {
    return value;
  } else {
    return zeroth::to_float(value);
  }
}
template <class T>
[[nodiscard]] T narrow(WideOf<T> value) {
  if constexpr (std::same_as<T, WideOf<T>>) {
    return value;
  } else {
    return zeroth::from_float<T>(value);
  }
}

/// Calls `pass(kept, at, n)` for consecutive groups of n elements from `at` on, `count` in all.
template <class Pass>
void each_mask(Dropped const& dropped, std::int64_t count, Pass const& pass) {
  std::array<std::byte, 4096> kept;  // small enough to stay in the L1 cache with the data computed from it
  for (std::int64_t begin = 0; begin < count;) {
    auto random = dropped.random;
    random.sample += (dropped.first + begin) / dropped.per_sequence;
    auto const in_sequence = (dropped.first + begin) % dropped.per_sequence;
    auto const end = std::min(dropped.per_sequence - in_sequence, count - begin);
    for (std::int64_t at = 0; at < end; at += std::ssize(kept)) {
      auto const n = std::min(std::ssize(kept), end - at);
      random.keep(in_sequence + at, dropped.rate, std::span{kept}.first(static_cast<std::size_t>(n)));
      pass(kept.data(), begin + at, n);
    }
    begin += end;
  }
}

}  // namespace detail

/// to = `from` after dropout; both may share memory.
template <class T>
void drop_out(Dropped const& dropped, std::int64_t count, T const* from, T* to) {
  auto const scale = static_cast<WideOf<T>>(dropped.scale());
  detail::each_mask(dropped, count, [&](std::byte const* kept, std::int64_t begin, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto const value = scale * detail::wide(from[begin + i]);
      to[begin + i] = detail::narrow<T>(kept[i] != std::byte{0} ? value : 0);
    }
  });
}

/// y = residual + y after dropout, rounded once.
template <class T>
void add_dropped_out(Dropped const& dropped, std::int64_t count, T const* residual, T* y) {
  auto const scale = static_cast<WideOf<T>>(dropped.scale());
  detail::each_mask(dropped, count, [&](std::byte const* kept, std::int64_t begin, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto const value = scale * detail::wide(y[begin + i]);
      y[begin + i] = detail::narrow<T>(detail::wide(residual[begin + i]) + (kept[i] != std::byte{0} ? value : 0));
    }
  });
}

}  // namespace gpt::cpu
