// SPDX-License-Identifier: Apache-2.0
/// LAMB's first pass on a CPU.
#pragma once
#include "device/kernels.hpp"

namespace zeroth::device {

/// Implements Kernels::move_moments in one pass over memory.
void move_moments(MoveMoments const& args) noexcept;

/// Implements Kernels::trust_ratios.
void trust_ratios(TrustRatios const& args) noexcept;

}  // namespace zeroth::device
