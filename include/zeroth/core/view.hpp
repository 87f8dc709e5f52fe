// SPDX-License-Identifier: Apache-2.0
/// Shapes, and non-owning views of elements.
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

/// Extents in elements, outermost first.
template <std::size_t D>
using Shape = std::array<std::int64_t, D>;

/// Contiguous row-major elements on the engine's device. Owns nothing; valid as long as the guard that returned it
/// exists.
template <class T, std::size_t D>
  requires Element<std::remove_const_t<T>>
class View {
 public:
  /// Views `data`, which must outlive the view. Does not check `shape`.
  constexpr View(T* data, Shape<D> const& shape) noexcept : data_{data}, shape_{shape} {}
  [[nodiscard]] constexpr T* data() const noexcept { return data_; }                 ///< The first element.
  [[nodiscard]] constexpr Shape<D> const& shape() const noexcept { return shape_; }  ///< Extents of all dimensions.
  /// Elements along dimension `dim`, which must be less than D.
  [[nodiscard]] constexpr std::int64_t extent(std::size_t dim) const noexcept { return shape_[dim]; }
  /// Total number of elements.
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    return std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies{});
  }
  /// The same elements in another shape, such as a convolution kernel as a matrix. Throws ContractError if the counts
  /// differ.
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
