// SPDX-License-Identifier: Apache-2.0
/// A micro-batch on the GPU.
#pragma once
#include <cstdint>

namespace gpt::gpu {

struct DeviceBatch {
  std::int32_t const *inputs, *targets;  ///< [tokens]
  std::int32_t const *order, *first;  ///< Positions of each token t in `inputs`: order[first[t]] ... order[first[t + 1]
                                      ///< - 1].
  std::int64_t tokens;
  float* loss;  ///< Output: the mean loss.
};

}  // namespace gpt::gpu
