// SPDX-License-Identifier: Apache-2.0
/// Shapes of any number of dimensions as the two that memory and multiplication know of.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model_source.hpp"

namespace zeroth::tools {

struct FoldedShape {
  std::size_t dimensions = 0;  ///< Before.
  std::int64_t rows = 1;       ///< The first extent.
  std::int64_t columns = 1;    ///< All others.
};

inline constexpr std::string_view too_large = "at most 10^15 elements";

/// Of positive extents; nothing if they make more elements than any model has.
[[nodiscard]] inline std::optional<FoldedShape> folded(std::span<std::int64_t const> shape) noexcept {
  FoldedShape result{.dimensions = shape.size()};
  std::int64_t count = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > largest_parameter_count / count) {
      return {};
    }
    count *= shape[i];
    (i == 0 ? result.rows : result.columns) *= shape[i];
  }
  return result;
}

}  // namespace zeroth::tools
