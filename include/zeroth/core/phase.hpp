// SPDX-License-Identifier: Apache-2.0
/// What a pass through units does with them.
#pragma once
#include <cstdint>

namespace zeroth {

/// Forward reads parameters; backward reads them, and writes gradients.
enum class Phase : std::uint8_t { forward, backward };

}  // namespace zeroth
