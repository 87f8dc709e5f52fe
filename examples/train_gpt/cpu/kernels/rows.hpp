// SPDX-License-Identifier: Apache-2.0
/// Rows for computations on the CPU: in fp32 (double for double), whatever type they are stored in.
#pragma once
#include <Eigen/Core>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include <zeroth/core/dtype.hpp>

namespace gpt::cpu {

template <class T>
using WideOf = std::conditional_t<std::same_as<T, double>, double, float>;

template <class S>
using RowArray = Eigen::Array<S, 1, Eigen::Dynamic>;
template <class S>
using Row = Eigen::Map<RowArray<S>>;
template <class S>
using ConstRow = Eigen::Map<RowArray<S> const>;

/// `count` elements of type T for reading: the row itself, or its values widened into `buffer`, which has room for
/// them.
template <class T>
[[nodiscard]] ConstRow<WideOf<T>> widened(T const* row, std::int64_t count, RowArray<WideOf<T>>& buffer) {
  if constexpr (std::same_as<T, WideOf<T>>) {
    return {row, count};
  } else {
    float* const wide = buffer.data();
    for (std::int64_t i = 0; i < count; ++i) {
      wide[i] = zeroth::to_float(row[i]);
    }
    return {wide, count};
  }
}

/// Rounds each of `values` once to T. `values` may read `row`, and the result of widened() in `buffer`.
template <class T, class Derived>
void store(Eigen::ArrayBase<Derived> const& values, T* row, RowArray<WideOf<T>>& buffer) {
  auto const count = values.cols();
  if constexpr (std::same_as<T, WideOf<T>>) {
    Row<T>{row, count} = values;
  } else {
    Row<float>{buffer.data(), count} = values;
    float const* const wide = buffer.data();
    for (std::int64_t i = 0; i < count; ++i) {
      row[i] = zeroth::from_float<T>(wide[i]);
    }
  }
}

/// Adds a row to one of a gradient, or overwrites it if `beta` is 0.
template <class G, class S>
void contribute(RowArray<S> const& values, G* row, float beta, RowArray<S>& buffer) {
  if (beta == 0) {
    store(values, row, buffer);
  } else {
    store(widened(row, values.cols(), buffer) + values, row, buffer);
  }
}

}  // namespace gpt::cpu
