// SPDX-License-Identifier: Apache-2.0
/// Shapes, and views of elements that somebody else owns.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>

#include "zeroth/core/dtype.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {

/// Extents in elements, the outermost first.
template <std::size_t D>
using Shape = std::array<std::int64_t, D>;

/// Contiguous row-major elements on the engine's device. Owns nothing; valid while the guard that gave it lives.
template <class T, std::size_t D>
  requires Element<std::remove_const_t<T>>
class View {
 public:
  /// Of memory that outlives it; `shape` is believed.
  constexpr View(T* data, Shape<D> const& shape) noexcept : data_{data}, shape_{shape} {}
  [[nodiscard]] constexpr T* data() const noexcept { return data_; }                 ///< The first element.
  [[nodiscard]] constexpr Shape<D> const& shape() const noexcept { return shape_; }  ///< Of all dimensions.
  /// Elements along dimension `dim`, which is less than D.
  [[nodiscard]] constexpr std::int64_t extent(std::size_t dim) const noexcept { return shape_[dim]; }
  /// Elements in all.
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    return std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies{});
  }
  /// The same elements in another shape: a convolution's kernel as a matrix. Throws ContractError if the counts differ.
  template <std::size_t N>
  [[nodiscard]] constexpr View<T, N> reshape(std::int64_t const (&shape)[N]) const {
    View<T, N> const other{data_, std::to_array(shape)};
    ZEROTH_EXPECTS(other.count() == count(), "reshape() to " + std::to_string(other.count()) +
                                                 " elements of a view of " + std::to_string(count()));
    return other;
  }

 private:
  T* data_;
  Shape<D> shape_;
};

}  // namespace zeroth
