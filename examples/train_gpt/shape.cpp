// SPDX-License-Identifier: Apache-2.0
#include "shape.hpp"

namespace gpt {

double flops_per_token(Shape const& shape) noexcept {
  auto const channels = static_cast<double>(shape.channels);
  auto const layers = static_cast<double>(shape.layers);
  // A block multiplies with queries, keys and values, the projection, and an MLP of four times the width.
  auto const in_matrices =
      layers * (3 + 1 + 4 + 4) * channels * channels + static_cast<double>(shape.vocabulary) * channels;
  auto const in_attention = layers * 2 * channels * static_cast<double>(shape.context);
  return 3 * 2 * (in_matrices + in_attention);
}

}  // namespace gpt
