// SPDX-License-Identifier: Apache-2.0
/// Lets tests choose another instruction set than the processor's best. The library includes this only where it defines
/// it.
#pragma once
#include "core/isa.hpp"

namespace zeroth {

/// Sets current_isa(). No stream may be running. `isa` must not exceed best_isa().
void choose_isa(Isa isa) noexcept;

}  // namespace zeroth
