// SPDX-License-Identifier: Apache-2.0
/// Another instruction set than the processor's best: for tests. The library includes this only where it defines it.
#pragma once
#include "core/isa.hpp"

namespace zeroth {

/// What current_isa() is from here on. No stream may be at work. `isa` must not exceed best_isa().
void choose_isa(Isa isa) noexcept;

}  // namespace zeroth
