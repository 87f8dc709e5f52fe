// SPDX-License-Identifier: Apache-2.0
/// The codecs' loops on the CPU. They run on the calling thread, with the same bits on every instruction set.
#pragma once
#include "device/kernels.hpp"

namespace zeroth::device {

/// Implements Kernels::encode.
void encode(Encode const& args) noexcept;

/// Implements Kernels::quantise.
void quantise(Quantise const& args) noexcept;

/// Implements Kernels::fold_received. Reads the ranks' blocks side by side, and writes each sum once.
void fold_received(FoldReceived const& args) noexcept;

}  // namespace zeroth::device
