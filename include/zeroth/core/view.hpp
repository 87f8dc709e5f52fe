/// Shapes, and views of elements that somebody else owns.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <type_traits>

#include "zeroth/core/dtype.hpp"

namespace zeroth {

template <std::size_t D>
using Shape = std::array<std::int64_t, D>;

/// Contiguous row-major elements on the engine's device. Owns nothing; valid while the guard that gave it lives.
template <class T, std::size_t D>
  requires Element<std::remove_const_t<T>>
class View {
 public:
  constexpr View(T* data, Shape<D> const& shape) noexcept : data_{data}, shape_{shape} {}
  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] constexpr Shape<D> const& shape() const noexcept { return shape_; }
  [[nodiscard]] constexpr std::int64_t extent(std::size_t dim) const noexcept { return shape_[dim]; }
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    return std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies{});
  }

 private:
  T* data_;
  Shape<D> shape_;
};

}  // namespace zeroth
