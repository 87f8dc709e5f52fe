// SPDX-License-Identifier: Apache-2.0
/// The shape of attention.
#pragma once
#include <cmath>
#include <cstdint>

namespace gpt {

struct AttentionHeads {
  std::int64_t count, width, context;
  [[nodiscard]] std::int64_t channels() const { return count * width; }
  /// The factor for scores, in type `S`.
  template <class S>
  [[nodiscard]] S scale() const {
    return 1 / std::sqrt(static_cast<S>(width));
  }
};

}  // namespace gpt
