// SPDX-License-Identifier: Apache-2.0
/// Tokens for tests that need no text.
#pragma once
#include <cstdint>
#include <random>

#include "batches.hpp"

namespace gpt::testing {

/// Tokens below `vocabulary`, of at most 256.
[[nodiscard]] inline Batch random_batch(std::int64_t tokens, int vocabulary, unsigned seed) {
  std::mt19937 random{seed};
  std::uniform_int_distribution<int> token{0, vocabulary - 1};
  Batch batch;
  for (std::int64_t i = 0; i < tokens; ++i) {
    batch.inputs.push_back(static_cast<std::uint8_t>(token(random)));
    batch.targets.push_back(static_cast<std::uint8_t>(token(random)));
  }
  return batch;
}

}  // namespace gpt::testing
