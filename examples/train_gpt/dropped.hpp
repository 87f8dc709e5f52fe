// SPDX-License-Identifier: Apache-2.0
/// The parameters of dropout for kernels.
#pragma once
#include <cstdint>

#include <zeroth/core/random.hpp>

namespace gpt {

/// Selects the elements that are dropped of a micro-batch's activations, [sequences, elements of a sequence].
struct Dropped {
  zeroth::Random random;  ///< For the first sequence. The next sequences have the next sample numbers.
  std::int64_t per_sequence;
  float rate;
  std::int64_t first = 0;  ///< Offset of these elements in the micro-batch, if a rank has only some of the rows.

  [[nodiscard]] float scale() const { return 1 / (1 - rate); }  ///< For elements that are kept.
};

}  // namespace gpt
