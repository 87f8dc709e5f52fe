// SPDX-License-Identifier: Apache-2.0
/// Folds shapes of any number of dimensions into two, which is all that memory and multiplication depend on.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model_source.hpp"

namespace zeroth::tools {

struct FoldedShape {
  std::size_t dimensions = 0;  ///< Before folding.
  std::int64_t rows = 1;       ///< The first extent.
  std::int64_t columns = 1;    ///< Product of all other extents.
};

inline constexpr std::string_view too_large = "at most 10^15 elements";

/// Folds positive extents; nullopt if they have more elements than a model may.
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
