// SPDX-License-Identifier: Apache-2.0
/// The model's extents.
#pragma once
#include <cstdint>

namespace gpt {

struct Shape {
  std::int64_t layers = 6, heads = 6, channels = 384, context = 256;
  std::int64_t vocabulary = 256;  ///< At least 256: a byte is a token.
  bool untied_head = false;       ///< The head has a matrix of its own, and not the token embedding.
  friend bool operator==(Shape const&, Shape const&) = default;
};

/// Floating-point operations for a token, on all ranks together. Forward has 2 for each element of a matrix that the
/// token is multiplied with, and for each product of attention, not masked. Backward has twice as many. What is
/// computed again does not count.
[[nodiscard]] double flops_per_token(Shape const& shape) noexcept;

/// What an extent may be, and how many layers: beyond it no sum of bytes is meant.
struct Extents {
  std::int64_t least, most;
  [[nodiscard]] bool contain(std::int64_t extent) const noexcept { return extent >= least && extent <= most; }
};
inline constexpr Extents layers_allowed{1, 10'000}, width_allowed{1, 1 << 20}, vocabulary_allowed{256, 1 << 24};

}  // namespace gpt
