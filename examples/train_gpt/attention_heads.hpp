// SPDX-License-Identifier: Apache-2.0
/// The shape of attention.
#pragma once
#include <cmath>
#include <cstdint>

namespace gpt {

class KeyBlocks;

struct AttentionHeads {
  std::int64_t count, width, context;
  KeyBlocks const* key_blocks = nullptr;  ///< For block-sparse attention; null: every query reads all earlier keys.
  bool operator==(AttentionHeads const&) const = default;
  [[nodiscard]] std::int64_t channels() const { return count * width; }
  /// The factor for scores, in type `S`.
  template <class S>
  [[nodiscard]] S scale() const {
    return 1 / std::sqrt(static_cast<S>(width));
  }
};

}  // namespace gpt
