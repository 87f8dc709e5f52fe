// SPDX-License-Identifier: Apache-2.0
/// What dropout leaves out, as kernels are told.
#pragma once
#include <cstdint>

#include <zeroth/core/random.hpp>

namespace gpt {

/// Which elements of a micro-batch's activations, [sequences, elements of a sequence], are left out.
struct Dropped {
  zeroth::Random random;  ///< Of the first sequence. Those of the others are the samples that follow.
  std::int64_t per_sequence;
  float rate;
  std::int64_t first = 0;  ///< Of these elements in the micro-batch's, where a rank has some of the rows only.

  [[nodiscard]] float scale() const { return 1 / (1 - rate); }  ///< Of what stays.
};

}  // namespace gpt
