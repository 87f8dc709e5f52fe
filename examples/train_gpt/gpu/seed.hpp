// SPDX-License-Identifier: Apache-2.0
/// The factor of a loss's gradient, for kernels.
#pragma once
#include "cuda/block.hpp"

namespace gpt::gpu {

/// A number, or a zeroth::DeviceSeed. Kernels that include the engine's headers take much longer to compile.
struct Seed {
  float factor, prescale = 1;
  float const* loss_scale = nullptr;  ///< Address on the GPU; null: 1.

  [[nodiscard]] ZEROTH_DEVICE float value() const {
    return (loss_scale == nullptr ? factor : *loss_scale * factor) * prescale;
  }
};

}  // namespace gpt::gpu
