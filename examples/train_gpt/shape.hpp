// SPDX-License-Identifier: Apache-2.0
/// The model's dimensions.
#pragma once
#include <cstdint>

namespace gpt {

struct Shape {
  std::int64_t layers = 6, heads = 6, channels = 384, context = 256;
  std::int64_t vocabulary = 256;  ///< At least 256: a byte is a token.
  bool untied_head = false;       ///< The head has its own matrix instead of the token embedding.
  friend bool operator==(Shape const&, Shape const&) = default;
};

/// Floating-point operations per token, over all ranks. Forward has 2 per element of a matrix that the token is
/// multiplied with, and per product of attention, without a mask. Backward has twice as many. Recomputation does not
/// count.
[[nodiscard]] double flops_per_token(Shape const& shape) noexcept;

/// Limits for extents and for the number of layers, so that sums of bytes do not overflow.
struct Extents {
  std::int64_t least, most;
  [[nodiscard]] bool contain(std::int64_t extent) const noexcept { return extent >= least && extent <= most; }
};
inline constexpr Extents layers_allowed{1, 10'000}, width_allowed{1, 1 << 20}, vocabulary_allowed{256, 1 << 24};

}  // namespace gpt
