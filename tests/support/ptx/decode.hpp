// SPDX-License-Identifier: Apache-2.0
/// Translates a kernel's text to a kernel that can run.
#pragma once
#include "support/ptx/kernel.hpp"
#include "support/ptx/source.hpp"

namespace zeroth::testing::ptx {

/// Throws std::runtime_error with the line and the instruction that is unknown or does not match its operands.
[[nodiscard]] Kernel decode(KernelSource const& source);
[[nodiscard]] inline Kernel decode(KernelText const& text) { return decode(take_apart(text)); }

}  // namespace zeroth::testing::ptx
